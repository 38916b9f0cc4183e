--- oracle.lua -- TYCHO_CHECK=capture: each call that a trace answers is captured anew first; both must do the same.
-- In: a compiled function's record and a call. Out: the call's results, or an error that says in what trace and capture
-- differ: then a guard is missing, even if the values happen to agree.
--
-- The trace says what it would do (lua_account.c): what it read where, how each tensor would be computed from which
-- memory, what it would write. The capture is made with the options that the trace was made with, and dropped. Both
-- descriptions are then walked side by side: what stands for results, for effects, for fields of tables made.
--
-- Guards are not compared: a trace may allow for more than this call shows. So it is with keys that are numbers of the
-- call: a trace writes twice where they are the same one for once, and a capture of that call writes once. What counts
-- is what a table holds in the end.

local format, concat = string.format, table.concat
local type, rawequal, next, pairs, ipairs, select, tostring = type, rawequal, next, pairs, ipairs, select, tostring

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local M = {}

local function same_number(a, b)
  return a == b and (a ~= 0 or 1 / a == 1 / b) or a ~= a and b ~= b
end

--- What a capture has found: as lua_account.c tells it of a trace.
local function account_of(world, d)
  local told = world.C.account(d.tensors)
  told.slots, told.numbers = {}, {}
  for k, s in pairs(world.slots) do told.slots[k] = s.value end
  for id, s in pairs(world.numbers) do told.numbers[id] = s.value end
  return told
end

--- What differs between two accounts with their descriptions, or nil.
local function difference(core, a, da, b, db)
  local C, storage = core.internals.capture, core.internals.grad.storage
  local pairs_seen = {} -- of tables made: b's number by a's

  local function same_tensor(x, y)
    if rawequal(x, y) then return true end
    if not (core.internals.is_live(x) and core.internals.is_live(y)) then return false end
    return storage(x) == storage(y) and x.dtype == y.dtype and concat(x.shape, ",") == concat(y.shape, ",")
      and concat(x:stride(), ",") == concat(y:stride(), ",")
  end

  local function same_value(x, y)
    if type(x) == "number" and type(y) == "number" then return same_number(x, y) end
    return rawequal(x, y) or C.is_tensor(x) and C.is_tensor(y) and same_tensor(x, y)
  end

  --- The kind of thing that a recipe gives in this call, and the thing.
  local function resolve(told, r)
    if r == nil then return "value", nil end
    local kind, k = r[1], r[2]
    if kind == "slot" then return "value", told.slots[k] end
    if kind == "number" then return "value", told.numbers[k] end
    return kind, k
  end

  local compare

  local function compare_tables(where, i, k)
    if pairs_seen[i] then
      if pairs_seen[i] ~= k then return where .. ": another table" end
      return nil
    end
    pairs_seen[i] = k
    local x, y = da.tables[i], db.tables[k]
    if x.maker ~= y.maker then return where .. ": another function" end
    if #x ~= #y then return format("%s: %d entries, captured anew %d", where, #x, #y) end
    local what = compare(where .. " (metatable)", x.meta, y.meta)
    for n = 1, #x do
      what = what or compare(format("%s, key %d", where, n), x[n][1], y[n][1])
        or compare(format("%s, entry %d", where, n), x[n][2], y[n][2])
    end
    return what
  end

  function compare(where, r, s)
    local kind, x = resolve(a, r)
    local other, y = resolve(b, s)
    if kind ~= other then return format("%s: a %s, captured anew a %s", where, kind, other) end
    if kind == "table" then return compare_tables(where, x, y) end
    if kind == "tensor" then
      if a.made[x] == b.made[y] then return nil end
      return where .. ": a tensor that is computed in another way"
    end
    if same_value(x, y) then return nil end
    return format("%s: %s, captured anew %s", where, tostring(x), tostring(y))
  end

  local function owner(told, e)
    local v = told.slots[e[2]]
    if e[1] == "upvalue" then return C.upvalue_id(v, e[3]) end
    return v
  end

  --- What a list of writes leaves in tables: by table, by key: the last value; whether keys vary. nil: nobody can tell,
  --- since the length of a list with holes decides.
  local function left_behind(told, d)
    local tables, varies = {}, false
    for _, e in ipairs(d.effects) do
      if e[1] == "set" then
        local t, key = told.slots[e[2]], e[3]
        local left = tables[t]
        if not left then
          left = { now = {}, values = {} }
          tables[t] = left
          for k in next, t do left.now[k] = true end
        end
        local k = select(2, resolve(told, key))
        if key[1] == "behind" then
          k = 1
          while left.now[k] do k = k + 1 end
          for other in next, left.now do
            if type(other) == "number" and other > k then return nil end
          end
        end
        varies = varies or key[1] == "behind" or key[1] == "number"
        left.values[k] = e[4]
        left.now[k] = select(2, resolve(told, e[4])) ~= nil or nil
      end
    end
    return tables, varies
  end

  --- The same of writes to tables as they end; false where it is not by keys of the call that they differ.
  local function compare_ends()
    local x, varies = left_behind(a, da)
    local y, vary = left_behind(b, db)
    if not x or not y or #da.tensors ~= #db.tensors then return nil end -- tensors are told by their places, too
    if not (varies or vary) then return false end
    for p, q in pairs { [x] = y, [y] = x } do
      for t, left in pairs(p) do
        for k, r in pairs(left.values) do
          local other = q[t] and q[t].values[k]
          if not other then return "a write that is one of them alone" end
          local what = compare("what is written to a table", p == x and r or other, p == x and other or r)
          if what then return what end
        end
      end
    end
    return nil
  end

  local function compare_effects(k)
    local e, g = da.effects[k], db.effects[k]
    local where = "effect " .. (e.path or k)
    if e[1] ~= g[1] or not same_value(owner(a, e), owner(b, g)) then
      return format("%s: captured anew %s %s", where, g[1], g.path or "?")
    end
    return e[1] == "set" and compare(where .. " (key)", e[3], g[3]) or compare(where, e[4], g[4])
  end

  if da.nresults ~= db.nresults then return format("%d results, captured anew %d", da.nresults, db.nresults) end
  for i = 1, da.nresults do
    local what = compare("result " .. i, da.results[i], db.results[i])
    if what then return what end
  end
  local wrong = #da.effects ~= #db.effects and format("%d effects, captured anew %d", #da.effects, #db.effects)
  for k = 1, #da.effects do wrong = wrong or compare_effects(k) end
  if wrong then
    local at_end = compare_ends()
    if at_end ~= nil then return at_end or wrong end
  end
  for key, print in pairs(a.written) do
    if b.written[key] ~= print then return "a tensor is written in another way" end
  end
  for key in pairs(b.written) do
    if not a.written[key] then return "a tensor is written that the trace does not write" end
  end
  if a.streams ~= b.streams then return format("%d random streams, captured anew %d", a.streams, b.streams) end
  if a.checks ~= b.checks then return "other indices are checked" end
  return nil
end

--- A call that a trace is about to answer as `told`: what is wrong with that, or nil.
local function examine(core, capture, h, told, ...)
  local t = core.internals.capture.traces(h.handle)[1]
  local d = t.description
  local options = { closures = d.closures, dynamic = t.dynamic or nil, bounds = {} }
  for path, is in pairs(d.bounds or {}) do options.bounds[path] = is end
  local ok, why = capture.dry(core, h.handle, options, function(world, again)
    return difference(core, told, d, account_of(world, again), again)
  end, h.fn, ...)
  if ok then return why end
  if why.kind == "holes" then return nil end -- the trace's keys say where its writes go, a capture asks for more
  return "captured anew it aborts: " .. tostring(why.reason)
end

--- One checked call. tell: gives what a trace would do, pick: the function-entry path.
---@param h table the compiled function's record
function M.call(core, capture, h, tell, pick, ...)
  if not h.custom then -- passes and backends make of the graph what they will
    local _, told = tell(...)
    local wrong = told and examine(core, capture, h, told, ...)
    if wrong then
      core.internals.error(format("check: %s: a trace would do something else than the function: %s", h.place, wrong))
    end
  end
  local run, y = pick(...)
  if run then return run(...) end
  return y
end

-- For specs.
M.difference, M.account_of = difference, account_of

return M
