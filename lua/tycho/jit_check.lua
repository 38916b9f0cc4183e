--- jit_check.lua -- jit.check: the plain function runs beside the compiled one, and every bit is compared.
-- In: a compiled function's record and the arguments of a call. Out: the results of the compiled call, or an error that
-- names the first place where the plain function gives something else.
--
-- How it works. What the function can reach is noted down: tables, upvalues and tensors, from its arguments, upvalues
-- and the globals that its bytecode names on. The plain function runs, eagerly, in a coroutine of its own; what it has
-- changed is compared with the notes and kept, then all is put back, the random state too. Then the compiled function
-- runs and its results and changes are compared with those.
--
-- Rules
-- 1. What the notes do not reach is done twice: output, files, the state of C libraries such as math.random.
-- 2. Tycho's own functions and tables are not looked into; of a compiled function the user's one is.
-- 3. Results that were there before must be the same object; those that are new are compared by content, in step, so
--    that tables which hold each other compare too. NaNs are one value.
-- 4. Of a table of globals only the names are noted that bytecode mentions: a large program around the function costs
--    nothing. Where a name is among these by which all globals can be had, all are noted.
-- 5. A function that yields is not checked in that call: nobody could resume both.

local bytecode = require "tycho.capture.bytecode"

local format, match, find, sub = string.format, string.match, string.find, string.sub
local concat = table.concat
local ipairs, type, next, rawget, rawset = ipairs, type, next, rawget, rawset
local rawequal, select, tostring, error = rawequal, select, tostring, error

if jit and jit.off then jit.off(true, true) end

local unpack = unpack
local getmetatable = type(debug) == "table" and debug.getmetatable or getmetatable
local setmetatable_of = type(debug) == "table" and debug.setmetatable
local getinfo = type(debug) == "table" and debug.getinfo
local getupvalue = type(debug) == "table" and debug.getupvalue

local function source_of(f)
  if getinfo then return getinfo(f, "S").source end
  local proto = bytecode.prototype(f)
  return proto and proto.source or "?"
end

local HOME = match(source_of(function() end), "^(@.*)[/\\]") or "@?"

local function is_library(f)
  local source = source_of(f)
  return sub(source, 1, #HOME) == HOME and match(source, "^[/\\]", #HOME + 1) ~= nil or sub(source, 1, 8) == "=(tycho)"
end

--- Globals by which others can be had.
local wide = { _G = true, getfenv = true, setfenv = true, debug = true, package = true, require = true, module = true,
  load = true, loadstring = true, loadfile = true, dofile = true }

local names_of = setmetatable({}, { __mode = "k" })

--- The globals that a function, or one inside it, names: a list; nil where it could be any.
local function global_names(f)
  local known = names_of[f]
  if known ~= nil then return known or nil end
  local list, any = {}, false
  local function collect(proto)
    for _, i in ipairs(proto.code) do
      if i.name == "GGET" or i.name == "GSET" then
        list[#list + 1] = i.k
        any = any or wide[i.k]
      end
    end
    for _, child in ipairs(proto.children) do collect(child) end
  end
  local proto = bytecode.ready() and bytecode.prototype(f)
  if proto then collect(proto) else any = true end
  names_of[f] = not any and list or false
  return not any and list or nil
end

---@param core table the core module
---@param plain fun(f: function): function? the user's function inside of a compiled one
return function(core, plain)
  local M = {}
  local C, K = core.internals.capture, core.internals.check
  local fail = core.internals.error

  local function is_tensor(v) return type(v) == "userdata" and C.is_tensor(v) and core.internals.is_live(v) end

  -- Notes -------------------------------------------------------------------------------------------------------------
  -- A record is {kind = "table" | "function" | "tensor", value, from, key}: the record by which it was found, and there
  -- under which key. Tables and cells remember their content; a table with `names` what it has under these.

  local function path_of(record)
    if not record.from then return record.key end
    local base, k = path_of(record.from), record.key
    if record.from.kind == "function" then return k end
    if type(k) == "string" and find(k, "^[%a_][%w_]*$") then return base .. "." .. k end
    return format("%s[%s]", base, type(k) == "string" and format("%q", k) or tostring(k))
  end

  local function take_notes(f, ...)
    local notes = { by = {}, tables = {}, cells = {}, tensors = {} }
    local seen, cells, queue, last = notes.by, {}, {}, 0
    local function note(v, from, key)
      local kind = type(v)
      if kind == "table" and seen[v] and seen[v].names then -- some of it was noted: now all is
        seen[v].names = nil
        last = last + 1
        queue[last] = seen[v]
        return
      end
      if seen[v] or kind ~= "table" and kind ~= "function" and not is_tensor(v) then return end
      if kind == "function" then
        v = plain(v) or v
        if seen[v] or C.is_native(v) or is_library(v) then return end
      end
      last = last + 1
      queue[last] = { kind = kind == "userdata" and "tensor" or kind, value = v, from = from, key = key }
      seen[v] = queue[last]
    end
    for _, own in next, { core, core.internals, package and package.loaded } do seen[own] = { kind = "library" } end
    --- What a function finds as a global: in its environment, or behind it.
    local function look(t, name, from)
      for _ = 1, 100 do
        if type(t) ~= "table" then return note(t, from, "_G") end
        local r = seen[t]
        if not r then
          r = { kind = "table", value = t, from = from, key = "_G", names = {}, content = {}, meta = getmetatable(t) }
          seen[t] = r
          notes.tables[#notes.tables + 1] = r
        end
        if not r.names then return end
        if not r.names[name] then
          r.names[name], r.content[name] = true, rawget(t, name)
          note(r.content[name], r, name)
        end
        local meta = type(r.meta) == "table" and r.meta or {}
        local behind = rawget(meta, "__newindex")
        if behind ~= nil and behind ~= rawget(meta, "__index") then note(behind, r, "__newindex") end
        t = rawget(meta, "__index")
        if t == nil then return end
      end
    end
    note(f, nil, "function")
    for i = 1, select("#", ...) do note((select(i, ...)), nil, "argument " .. i) end
    local at = 0
    while at < last do
      at = at + 1
      local r = queue[at]
      local v = r.value
      if r.kind == "table" then
        if not r.content then notes.tables[#notes.tables + 1] = r end
        r.content, r.meta = {}, getmetatable(v)
        for k, e in next, v do
          r.content[k] = e
          note(k, r, "a key")
          note(e, r, k)
        end
        note(r.meta, r, "metatable")
      elseif r.kind == "function" then
        for i = 1, K.upvalues(v) do
          local id = C.upvalue_id(v, i)
          if not cells[id] then
            cells[id] = true
            local name = getupvalue and getupvalue(v, i) or ("upvalue " .. i)
            local e = C.upvalue(v, i)
            notes.cells[#notes.cells + 1] = { fn = v, index = i, value = e, name = name }
            note(e, r, name)
          end
        end
        local env, names = C.environment(v), global_names(v)
        if not names then note(env, r, "_G") end
        for _, name in ipairs(names or {}) do look(env, name, r) end
      else
        r.still, r.version = K.still(v)
        r.past, r.gradient = K.past(v), K.gradient(v)
        if r.gradient then r.gradient_still, r.gradient_version = K.still(r.gradient) end
        notes.tensors[#notes.tensors + 1] = r
      end
    end
    return notes
  end

  -- What a run has changed: lists that are parallel to the notes; nothing where nothing changed.
  local NIL = {}

  local function table_changes(r)
    local now, changed = r.value, nil
    for k in next, r.names or {} do
      local v, e = rawget(now, k), r.content[k]
      if not rawequal(v, e) and (v == v or e == e) then
        changed = changed or {}
        changed[k] = v == nil and NIL or v
      end
    end
    if r.names then return changed end
    for k, e in next, r.content do
      local v = rawget(now, k)
      if not rawequal(v, e) and (v == v or e == e) then
        changed = changed or {}
        changed[k] = v == nil and NIL or v
      end
    end
    for k, v in next, now do
      if r.content[k] == nil then
        changed = changed or {}
        changed[k] = v
      end
    end
    return changed
  end

  --- A copy of the gradient where it is another one than before; NIL where there is none any more.
  local function gradient_change(r)
    local g = core.internals.is_live(r.value) and K.gradient(r.value) or nil
    if g and r.gradient and not K.changed(g, r.gradient_still) or not g and not r.gradient then return false end
    return g and K.still(g) or NIL
  end

  local function changes_since(notes)
    local y = { tables = {}, metas = {}, cells = {}, tensors = {}, gradients = {} }
    for i, r in ipairs(notes.tables) do
      y.tables[i] = table_changes(r) or false
      local meta = getmetatable(r.value)
      y.metas[i] = not rawequal(meta, r.meta) and (meta == nil and NIL or meta) or false
    end
    for i, c in ipairs(notes.cells) do
      local v = C.upvalue(c.fn, c.index)
      y.cells[i] = not rawequal(v, c.value) and (v == v or c.value == c.value) and { value = v } or false
    end
    for i, r in ipairs(notes.tensors) do
      if not K.changed(r.value, r.still) then y.tensors[i] = false
      elseif not core.internals.is_live(r.value) then y.tensors[i] = "released"
      else y.tensors[i] = K.still(r.value) end
      y.gradients[i] = gradient_change(r)
    end
    return y
  end

  local function put_back(notes, changes)
    for i, changed in ipairs(changes.tables) do
      local r = notes.tables[i]
      for k in next, changed or {} do rawset(r.value, k, r.content[k]) end
      if changes.metas[i] and setmetatable_of then setmetatable_of(r.value, r.meta) end
    end
    for i, changed in ipairs(changes.cells) do
      local c = notes.cells[i]
      if changed then K.set_upvalue(c.fn, c.index, c.value) end
    end
    for i, changed in ipairs(changes.tensors) do
      local r = notes.tensors[i]
      if changed then K.put_back(r.value, r.still, r.version) end
      K.restore(r.value, r.past)
      K.set_gradient(r.value, r.gradient)
      if changes.gradients[i] and r.gradient then K.put_back(r.gradient, r.gradient_still, r.gradient_version) end
    end
  end

  -- Comparison --------------------------------------------------------------------------------------------------------

  local function show(v)
    if type(v) == "number" then
      return v == 0 and 1 / v < 0 and "-0" or format("%.9g", v)
    end
    if type(v) == "string" then return format("%q", #v > 60 and sub(v, 1, 60) .. "..." or v) end
    if is_tensor(v) then
      local needs = v.requires_grad and (v.is_leaf and ", a leaf" or ", taped") or ""
      return format("a tensor %s[%s]%s", v.dtype, concat(v.shape, ","), needs)
    end
    return type(v) == "nil" and "nil" or type(v) == "boolean" and tostring(v) or "a " .. type(v)
  end

  local function differs(path, a, b)
    fail(format("check: %s differs: eager %s, compiled %s", path, a, b))
  end

  local function field(path, k)
    if type(k) == "string" and find(k, "^[%a_][%w_]*$") then return path .. "." .. k end
    return format("%s[%s]", path, type(k) == "string" and format("%q", k) or tostring(k))
  end

  local function element(path, t, n)
    local shape, at = t.shape, {}
    n = n - 1
    for d = #shape, 1, -1 do
      at[d] = n % shape[d] + 1
      n = (n - n % shape[d]) / shape[d]
    end
    return #at > 0 and format("%s[%s]", path, concat(at, ",")) or path
  end

  local function compare_tensors(path, a, b)
    local text, other = show(a), show(b)
    if text ~= other then differs(path, text, other) end
    local n, v, w, x, y = K.differ(a, b)
    if not n then return end
    v, w = show(v), show(w)
    if v == w then v, w = format("%s (%s)", v, x), format("%s (%s)", w, y) end
    differs(element(path, a, n), v, w)
  end

  --- Compares what the plain function gave, a, with what the compiled one gave, b.
  local function compare(notes, partner, path, a, b)
    if rawequal(a, b) then
      if a == 0 and 1 / a ~= 1 / b then differs(path, show(a), show(b)) end
      return
    end
    local kind = type(a)
    if kind ~= type(b) then differs(path, show(a), show(b)) end
    if kind == "number" then
      if a ~= a and b ~= b then return end
      local v, w = show(a), show(b)
      if v == w then v, w = format("%.17g", a), format("%.17g", b) end
      differs(path, v, w)
    elseif kind == "string" or kind == "boolean" then
      differs(path, show(a), show(b))
    elseif notes.by[a] or notes.by[b] then
      local x, y = notes.by[a], notes.by[b]
      differs(path, x and path_of(x) or show(a), y and path_of(y) or show(b))
    elseif kind == "table" then
      if partner[a] == b then return end
      if partner[a] or partner[b] then differs(path, "a table that is elsewhere, too", "another one") end
      partner[a], partner[b] = b, a
      compare(notes, partner, path .. " (metatable)", getmetatable(a), getmetatable(b))
      for k, v in next, a do
        local plain_key = type(k) ~= "table" and type(k) ~= "userdata" or notes.by[k]
        if plain_key then compare(notes, partner, field(path, k), v, rawget(b, k)) end
      end
      for k, v in next, b do
        if rawget(a, k) == nil and (type(k) ~= "table" and type(k) ~= "userdata" or notes.by[k]) then
          differs(field(path, k), "nil", show(v))
        end
      end
    elseif is_tensor(a) and is_tensor(b) then
      compare_tensors(path, a, b)
    end
  end

  local function compare_gradients(path, r, a, b)
    if not a and not b then return end
    if not a then a = r.gradient_still or NIL end
    if not b then b = r.gradient_still or NIL end
    if a == NIL or b == NIL then
      if a ~= b then differs(path, a == NIL and "nil" or show(a), b == NIL and "nil" or show(b)) end
    else
      compare_tensors(path, a, b)
    end
  end

  local function compare_changes(notes, partner, eager, now)
    for i, r in ipairs(notes.tables) do
      local a, b = eager.tables[i] or {}, now.tables[i] or {}
      local function value(changed, k)
        local v = changed[k]
        if v == nil then return r.content[k] end
        if v == NIL then return nil end
        return v
      end
      for k in next, a do compare(notes, partner, field(path_of(r), k), value(a, k), value(b, k)) end
      for k in next, b do
        if a[k] == nil then compare(notes, partner, field(path_of(r), k), value(a, k), value(b, k)) end
      end
      local m, w = eager.metas[i], now.metas[i]
      if not rawequal(m, w) then compare(notes, partner, path_of(r) .. " (metatable)", m, w) end
    end
    for i, c in ipairs(notes.cells) do
      local a, b = eager.cells[i], now.cells[i]
      if a or b then
        local x, y = c.value, c.value
        if a then x = a.value end
        if b then y = b.value end
        compare(notes, partner, c.name, x, y)
      end
    end
    for i, r in ipairs(notes.tensors) do
      local a, b = eager.tensors[i], now.tensors[i]
      if a or b then
        if a == "released" or b == "released" then
          if a ~= b then differs(path_of(r), a == "released" and a or "alive", b == "released" and b or "alive") end
        else
          compare_tensors(path_of(r), a or r.still, b or r.still)
        end
      end
      compare_gradients(path_of(r) .. ".grad", r, eager.gradients[i], now.gradients[i])
    end
  end

  -- The two runs ------------------------------------------------------------------------------------------------------

  local function pack(...) return { n = select("#", ...), ... } end

  --- The plain function's outcome, {ok, results ...}; {} where it yields.
  local function run_plainly(f, ...)
    local mode = core.internals.modes.plain()
    local outcome = pack(K.alone(f, ...))
    core.internals.modes.leave(mode)
    return outcome
  end

  --- Text of an error that does not tell how deep it was raised.
  local function error_text(e) return type(e) == "string" and e or show(e) end

  --- One checked call. run: the compiled function. Returns what it does; what a debug hook raises goes on.
  ---@param h table the compiled function's record
  ---@param run function
  function M.call(h, run, ...)
    local notes, random = take_notes(h.fn, ...), K.random()
    local eager = run_plainly(h.fn, ...)
    local changed = changes_since(notes)
    local random_after = K.random()
    put_back(notes, changed)
    K.random(random)
    if eager.n == 0 then return run(...) end
    local y = pack(core.internals.protect(run, ...))
    if eager[1] ~= y[1] then
      differs("the outcome", eager[1] and "returns" or "raises " .. error_text(eager[2]),
        y[1] and "returns" or "raises " .. error_text(y[2]))
    end
    if not y[1] then
      if type(eager[2]) == "string" and eager[2] ~= y[2] then
        differs("the error", error_text(eager[2]), error_text(y[2]))
      end
      return error(y[2], 0)
    end
    if eager.n ~= y.n then differs("the number of results", eager.n - 1, y.n - 1) end
    local partner = {}
    for i = 2, y.n do compare(notes, partner, "result " .. i - 1, eager[i], y[i]) end
    compare_changes(notes, partner, changed, changes_since(notes))
    if K.random() ~= random_after then differs("the random state", "one", "another") end
    return unpack(y, 2, y.n)
  end

  M.unpack = unpack
  return M
end
