--- keys.lua -- keys of tables, and lengths, that are numbers of later calls.
-- In: a table from outside, a number with a shadow. Out: what stands there, read in each call by the number of that
-- call; lengths as numbers; guards on how such keys lie to each other.
--
-- A key that is a whole number of the call (an argument, a counter, `#t + 1`) is no guard on its value: a read is the
-- instruction "at", a write an effect whose key is that number. What is written inside answers reads, so it must be
-- known whether two keys are one.
--
-- Rules.
-- 1. Numbers that nothing but sizes or draws give, fractions, and keys of tables that are made inside are pinned.
-- 2. A key that is read, or written again, is related to all keys that have been written before: equal, or not, as they
--    are now (relate). A key that is written for the first time need not be: writes are repeated in their order.
-- 3. `#t` is what it is in each call, a check on its value only where that is looked at. While the table has the
--    positions that it had, it is read once. After that it is its length before, and what was added, where the table is
--    a list without holes, then and now ("list"); keys that were written count from the length, or lie within.
-- 4. t[#t + 1] = v, where nothing was written to t since #t was asked, needs none of this: its effect asks for the
--    length when it comes, as the code does.
--    That is walked over, so it is asked of short lists alone: at a longer one the function is cut.
-- 5. Where that does not do, all keys and the length are pinned: what is known then is known of one call's.

local floor, abs, min = math.floor, math.abs, math.min
local type, next, ipairs, select, unpack = type, next, ipairs, select, unpack
local rawget, rawequal = rawget, rawequal

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local KEY_MOST = 2 ^ 31 - 1
local LIST_MOST = require("tycho").internals.capture.LIST_MOST
local RELATIONS = 24 -- that one table may ask for by guards, else its keys are pinned

local function is_position(k) return type(k) == "number" and k >= 1 and floor(k) == k end

local function is_key(k) return floor(k) == k and abs(k) <= KEY_MOST end

local function known(s) return s == nil or s.pinned end

return function(World)
  -- Lengths -----------------------------------------------------------------------------------------------------------

  -- Shadows of their own kind, which become numbers when they are asked for one (length_id):
  --     {length = record, version, value}       the length after so many writes; with `grown` what it is made of
  --     {behind = shadow of a length, value}    the position behind
  -- record.version counts writes; record.numbered lists the entries of its overlay that have numbers as keys.

  --- Whether no key was added to a table from outside, nor taken, as far as is known.
  local function stands_still(o) return not (o.grown or o.shrunk) end

  --- Counts the positions of a table from outside, a list before anything was written, as it is now.
  local function count_positions(world, o)
    o.count, o.max = 0, 0
    for k in next, o.value do
      if is_position(k) then
        o.count = o.count + 1
        if k > o.max then o.max = k end
      end
    end
    if o.count ~= o.length or o.max ~= o.length then world:abort_holes() end
    for _, e in ipairs(o.numbered or {}) do world.tally(o, e.key, rawget(o.value, e.key), e.value) end
  end

  --- The length of a table from outside, and its shadow.
  function World:outside_length(o)
    o.length = o.length or #o.value
    o.lengths = o.lengths or {}
    local version = o.version or 0
    local s = o.lengths[version]
    if s then return s.value, s end
    local n, keys = o.length, nil
    if not stands_still(o) then
      if not o.count then count_positions(self, o) end
      n = self.sequence_length(self, o, function(i)
        local entry = o.overlay[i]
        if entry then return entry.value end
        return rawget(o.value, i)
      end)
      keys = {}
      for i, e in ipairs(o.numbered or {}) do
        keys[i] = { entry = e, key = e.key, full = not rawequal(e.value, nil) }
      end
    end
    s = { length = o, version = version, value = n, grown = keys, typed = true, path = "#" .. (o.shadow.path or "?"),
      place = keys and self:cut_here() }
    o.lengths[version] = s
    return n, s
  end

  --- The length before anything was written, as a number.
  local function first_length(world, o)
    return world:numeric_of({ "entries", o.slot }, o.length, "entries " .. o.slot, "#" .. (o.shadow.path or "?"))
  end

  local function pin_first_length(world, o)
    if o.length_pinned then return end
    o.length_pinned = true
    world:emit({ "length", o.slot, o.length }, o.shadow.path)
  end

  --- Makes known which keys of a table were written.
  function World:pin_keys(o)
    for _, e in ipairs(o.numbered or {}) do
      if not known(e.ks) then self:pin(e.key, e.ks) end
    end
  end

  local function must_be_list(world, s)
    local o = s.length
    if o.listed then return end
    if o.length > LIST_MOST then
      world:abort_at(s.place, "asks for the length of a long list that it has changed", "count in a number")
    end
    o.listed = true
    world:emit({ "list", o.slot }, o.shadow.path)
  end

  --- Makes a length known, or the position behind it.
  function World:pin_length(s)
    s.pinned = true
    if s.behind then return self:pin_length(s.behind) end
    local o = s.length
    if s.grown then
      must_be_list(self, s)
      for _, k in ipairs(s.grown) do
        if not known(k.entry.ks) then self:pin(k.key, k.entry.ks) end
      end
    end
    return pin_first_length(self, o)
  end

  --- How far a key lies behind the length that its table had at first, if it counts from that: nil otherwise.
  local function behind_length(world, o, k, ks)
    if known(ks) then return nil end
    local root, offset = world:form_of(world:number_id(k, ks))
    if root == first_length(world, o).number then return offset end
    return nil
  end

  --- The shadow of the length of a table that got and lost keys, if its length before tells it; then guards hold that.
  local function told_by_first(world, s)
    local o, n, least = s.length, s.value, 0
    local within = min(n, o.length)
    for _, k in ipairs(s.grown) do
      local offset = behind_length(world, o, k.key, k.entry.ks)
      if offset then
        if not k.full and 1 - offset > least then least = 1 - offset end
      elseif is_position(k.key) or not known(k.entry.ks) then
        if not k.full or k.key < 1 or k.key > within then return nil end
      end
    end
    if least > o.length then return nil end
    must_be_list(world, s)
    local first = first_length(world, o)
    local sum = n == o.length and first or select(2, world:numeric("add", n, o.length, first, n - o.length, nil))
    for _, k in ipairs(s.grown) do
      local varies = not known(k.entry.ks)
      if (varies or is_position(k.key)) and not behind_length(world, o, k.key, k.entry.ks) then
        if varies then world:compare_numbers("le", 1, nil, k.key, k.entry.ks) end
        world:compare_numbers("le", k.key, k.entry.ks, within, within == n and sum or first)
      end
    end
    if least > 0 then world:compare_numbers("le", least, nil, o.length, first) end
    return sum
  end

  --- The expression of a length, or of the position behind one, whose value is v now.
  function World:length_id(v, s)
    if s.behind then
      local before = self:number_id(s.behind.value, s.behind)
      if s.behind.pinned then
        s.pinned = true
        return self:number_id(v, s)
      end
      local root, offset = self:form_of(before)
      local _, sum = self:numeric("add", v, v - offset - 1, self.numbers[root], offset + 1, nil)
      s.number = sum.number
      return s.number
    end
    local sum
    if s.grown then sum = told_by_first(self, s) else sum = first_length(self, s.length) end
    if not sum then
      self:pin_length(s)
      return self:number_id(v, s)
    end
    s.number = sum.number
    return s.number
  end

  -- Keys --------------------------------------------------------------------------------------------------------------

  --- What a number is made of: the expression and the whole number that is added to it. Of a constant the number alone.
  function World:form_of(id)
    local offset = 0
    while true do
      local s = self.numbers[id]
      local instr = s.instr
      if not instr then return id, offset end
      if instr[1] == "const" then return 0, offset + instr[2] end
      if instr[1] ~= "add" and instr[1] ~= "sub" then return id, offset end
      local a, b = self.numbers[instr[2]], self.numbers[instr[3]]
      if b.instr and b.instr[1] == "const" and is_key(b.value) then
        offset, id = offset + (instr[1] == "add" and b.value or -b.value), instr[2]
      elseif instr[1] == "add" and a.instr and a.instr[1] == "const" and is_key(a.value) then
        offset, id = offset + a.value, instr[3]
      else
        return id, offset
      end
    end
  end

  --- The expression of a number that counts as a size, where it follows from numbers of the call and not from tensors.
  local function early_id(world, v, s)
    if known(s) or not s.size then
      local id = world:number_id(v, s)
      return id <= world.C.DEFERRED and id or nil
    end
    if s.early or not s.made then return s.early end
    local op, a, as, b, bs = unpack(s.made, 1, 5)
    if op ~= "add" and op ~= "sub" and op ~= "mul" then return nil end
    local ia, ib = early_id(world, a, as), early_id(world, b, bs)
    if not (ia and ib) then return nil end
    local _, made = world:numeric(op, v, a, world.numbers[ia], b, world.numbers[ib])
    s.early = made.number
    return s.early
  end

  --- The shadow of a number that may be another key in later calls; nil: it is to be pinned.
  local function varying(world, k, ks)
    if ks.pinned or not is_key(k) then return nil end
    if ks.length or ks.behind then return ks end
    local id = early_id(world, k, ks)
    if ks.size then return id and world.numbers[id] end
    return id and ks
  end

  --- The key of a table: known, or with its shadow where the table is from outside and it is a number of the call.
  function World:key_of(t, ts, k, ks)
    if ks == nil then return k, nil end
    if type(k) == "number" and type(t) == "table" then
      local s = self:table_of(t, ts).slot and varying(self, k, ks)
      if s then return k, s end
    end
    return self:identify(k, ks), nil
  end

  --- What a call has as a key is one: a whole number, not too large.
  local function check_key(world, k, ks)
    local id = world:number_id(k, ks)
    local root = world.numbers[world:form_of(id)]
    if not world.said["key " .. id] and not (root and root.instr and root.instr[1] == "entries") then
      world.said["key " .. id] = true
      world:emit({ "key", id, true }, ks.path)
    end
    return id
  end

  --- Whether guards must tell two keys apart, or hold them together; the numbers of both.
  local function are_open(world, a, as, b, bs)
    if known(as) and known(bs) then return false end
    local ia, ib = world:number_id(a, as), world:number_id(b, bs)
    if ia == ib then return false end
    local root, offset = world:form_of(ia)
    local other, by = world:form_of(ib)
    return root ~= other or offset == by
  end

  --- Guards that a key is, or is not, each of those that were written, as it is now.
  function World:relate(o, k, ks)
    for _, e in ipairs(o.numbered or {}) do
      if are_open(self, e.key, e.ks, k, ks) then
        o.relations = (o.relations or 0) + 1
        if o.relations > RELATIONS then
          self:pin_keys(o)
          if not known(ks) then self:pin(k, ks) end
          return
        end
        if not known(e.ks) then check_key(self, e.key, e.ks) end
        if not known(ks) then check_key(self, k, ks) end
        self:compare_numbers("eq", e.key, e.ks, k, ks)
      end
    end
  end

  --- The value at a key that is a number of the call, without metamethods.
  function World:element(o, k, ks)
    o.by_number, o.by_key_of_call = true, true
    if o.numbered then
      self:relate(o, k, ks)
      local entry = o.overlay[k]
      if entry then return entry.value, entry.shadow end
    end
    if ks.pinned then return self:field(o, k) end
    local id = check_key(self, k, ks)
    o.elements = o.elements or {}
    local s = o.elements[id]
    if not s then
      s = self:slot(rawget(o.value, k), { "at", o.slot, id }, self.path_of(o.shadow.path, k, ks))
      o.elements[id] = s
    end
    if self.turns then self:note_read(false) end -- it would have to be read again by that number
    return s.value, s
  end

  --- Notes that a key of calls is written for the first time: what was read there, if anything.
  function World:new_key(o, k, ks)
    local before = ks.behind
    o.by_number, o.by_key_of_call = true, true
    if before and not ks.number and before.length == o and before.version == (o.version or 0) then return nil end
    local id = check_key(self, k, ks)
    return o.elements and o.elements[id]
  end

  --- Whether the effect of a write asks for the length when it comes.
  function World.is_behind(e) return e.ks ~= nil and e.ks.behind ~= nil and not e.ks.number and not e.ks.pinned end
end
