--- natives.lua -- what functions written in C mean to captured code: Lua's libraries and Tycho's own.
-- In: a function, arguments with shadows. Out: results with shadows, or an abort that names the function.
--
-- Rules:
-- 1. What a function does to a capture stands in its row (native_table.lua). Lua's are modelled (library.lua), Tycho's
--    are called inside the open session, which records; any other one aborts.
-- 2. Tycho's C functions are told which arguments are numbers of later calls (C.symbols) and say which of them became
--    inputs of the plan (C.taken); the others are pinned. What else they are given is pinned to the bottom.
-- 3. A function that keeps state outside of what is guarded must not be called, even when it would give the same now.
-- 4. What a function hands out is known, or found among the objects that are.

local names = require "tycho.capture.names"
local native_table = require "tycho.capture.native_table"
local rows, OUTSIDE = native_table.tycho, native_table.OUTSIDE

local format, sub = string.format, string.sub
local type, tostring, rawget, next, ipairs, getmetatable = type, tostring, rawget, next, ipairs, getmetatable
local select, unpack, floor = select, unpack, math.floor
local insert, remove = table.insert, table.remove
local index = require("tycho.capture.operators").index

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local function pack(...) return { ... }, select("#", ...) end

local function known(s) return s == nil or s.pinned end

return function(World)
  local models = require("tycho.capture.library")(World)
  World.models, World.OUTSIDE = models, OUTSIDE
  require("tycho.capture.scalars")(World, models)

  --- The name of a function of Tycho's, nil of any other. Users may put functions of their own beside them.
  function World:owner(f)
    local name = names.of(self.core)[f]
    return name and (self.C.is_native(f) or self:is_ours(f) or self.is_wrapper(f)) and name or nil
  end

  -- What goes to native code and comes back ---------------------------------------------------------------------------

  --- Whether a table is an object of the library that never changes, such as a group of ranks: it is known by identity.
  function World:is_fixed(v)
    local fixed = self.core.internals.grad.fixed
    return fixed[getmetatable(v)] or false
  end

  --- Pins a value and all that can be reached from it.
  function World:expose(v, s, name)
    local kind = type(v)
    if self:is_thread(v) then self:abort_thread(format("a coroutine made inside is given to %s", name)) end
    if kind == "function" and (self.closures[v] or self.iterators[v]) then
      self:abort(format("a function made inside is given to %s", name))
    end
    if s and s.size then return v end -- the tape knows what it is
    if kind ~= "table" then return self:pin(v, s) end
    if self:is_fixed(v) then return self:identify(v, s) end
    local o = self:table_of(v, s)
    if o.exposing then return v end
    if (o.fresh and o.meta ~= nil) or (not o.fresh and not o.constant and self:metatable(o) ~= nil) then
      self:abort(format("a table with a metatable is given to %s", name))
    end
    if o.overlay then self:abort(format("a table from outside that was changed is given to %s", name)) end
    o.exposing = true
    if o.fresh then
      self:settle(o)
      for k, e in next, v do self:expose(e, o.shadow[k], name) end
    elseif not o.constant and not o.exposed then
      o.exposed = true
      for _, k in ipairs(self:keys(o)) do
        local e, es = self:field(o, k)
        self:expose(e, es, name)
      end
    end
    o.exposing = nil
    return v
  end

  --- The shadow of what native code handed out. fresh: collects the tables that are new.
  function World:adopt(v, name, fresh)
    local kind = type(v)
    if kind == "nil" or kind == "number" or kind == "string" or kind == "boolean" then return v, nil end
    if kind == "table" then
      local o, hooks = self.tables[v], name == "grad.step" and self:hooks(v)
      if hooks then return v, hooks end
      if o then return v, o.shadow and o.slot and o.shadow or nil end
      if self.constants[v] then return v, nil end
      if getmetatable(v) ~= nil then self:abort(format("%s returns a table with a metatable", name)) end
      self:table(v)
      fresh[v] = true
      for k, e in next, v do
        local _, es = self:adopt(e, name, fresh)
        self.tables[v].shadow[k] = es
      end
      return v, nil
    end
    local internals = self.core.internals
    if kind == "userdata" and (self.is_tensor(v) or internals.grad.is_back(v)
        or internals.modes.is(v) or internals.loop.is(v)) then
      if self.thread and not self.objects[v] then self.in_threads[v] = true end
      return v, self.objects[v]
    end
    if kind == "function" and self.objects[v] then return v, self.objects[v] end
    if kind == "function" and name == "grad.step" and self:is_ours(v) then return v, nil end -- a rule of the library
    return self:abort(format("%s returns a %s", name, kind))
  end

  local function adopt_all(world, results, n, name)
    local shadows, fresh = {}, {}
    for i = 1, n do
      local v = results[i]
      if name == "rows" and type(v) == "function" then world.iterators[v] = "rows" end
      if not world.iterators[v] then
        local _, s = world:adopt(v, name, fresh)
        shadows[i] = s
      end
    end
    if world.tape then world.tape:returned(results, shadows, n, fresh, name) end
    return results, shadows, n
  end

  -- Tycho's functions -------------------------------------------------------------------------------------------------

  local function note_wholeness(world, ...)
    for i = 1, select("#", ...), 2 do
      local id, whole = select(i, ...)
      local at = "whole " .. id
      if not world.said[at] then
        world.said[at] = true
        local s = world.numbers[id]
        world:must_be_known(s)
        if not (s and s.pinned) then world:emit({ "whole", id, whole }, s and s.path, world:stage(id)) end
      end
    end
  end

  --- After a call with symbols: those that the core did not take are looked at. Tells what it took.
  local function pin_untaken(world, symbols, count, args, shadows)
    local taken = world.C.taken()
    world.asking = true
    for k = 1, count, 2 do
      local i = symbols[k]
      if floor(taken / 2 ^ (i - 1)) % 2 == 0 then world:pin(args[i], shadows[i]) end
    end
    world.asking = false
    return taken
  end

  --- What a scan's turn reads outside is noted from its first parameter until it is recorded.
  local loops = {}

  loops["loop.begin"] = function(world, _, results)
    world.turns = world.turns or {}
    insert(world.turns, { scope = results[1] })
  end

  loops["loop.record"] = function(world, args)
    local list = world.turns or {}
    for i = #list, 1, -1 do
      if list[i].scope == args[1] then remove(list, i) end
    end
    if not list[1] then world.turns = nil end
  end
  loops["loop.leave"], loops["loop.again"] = loops["loop.record"], loops["loop.record"]

  loops["loop.hash"] = function(world, args, results)
    for _, turn in ipairs(world.turns or {}) do
      if turn.scope == args[1] then
        local slots = {}
        for k in next, turn do
          if type(k) == "number" then slots[k] = true end
        end
        world.hashes[results[1]] = { slots = slots, unsure = turn.unsure,
          tensors = world.core.internals.loop.reads(args[1], args[2]) }
      end
    end
  end

  --- Calls a function of the library in the open session.
  function World:tycho(f, name, args, shadows, n)
    self:look_at_clock()
    local C, tape, symbols, count = self.C, self.tape, nil, 0
    local keeps = type(args[2]) == "table" and self.core.internals.grad.kept[f] -- it comes back, and is not looked into
    self.asking = true
    for i = 1, n do
      local v, s = args[i], shadows[i]
      if type(v) == "number" and not known(s) and not s.size then
        symbols = symbols or {}
        symbols[count + 1], symbols[count + 2] = i, self:number_id(v, s)
        count = count + 2
      elseif i ~= keeps then
        self:expose(v, s, name)
      end
    end
    self.asking = false
    local site = self:site()
    if site then C.place(site) end
    if tape then tape:call(f, args, shadows, n, symbols, keeps, site) end
    if symbols then C.symbols(n, unpack(symbols, 1, count)) end
    local results, nresults = pack(f(unpack(args, 1, n)))
    local refused = C.reason()
    if refused then self:abort(refused, rows[name] and rows[name].hint) end
    if name == "grad.random" then self.random_at[results[1]] = C.streams() end
    if loops[name] then loops[name](self, args, results) end
    local taken = symbols and pin_untaken(self, symbols, count, args, shadows)
    local whole, nwhole = pack(C.wholeness())
    note_wholeness(self, unpack(whole, 1, nwhole))
    if tape then tape:took(taken, unpack(whole, 1, nwhole)) end
    return adopt_all(self, results, nresults, name)
  end

  function World:tensor_arith(op, a, as, b, bs)
    if op == "pow" then
      local y, ys = self:power(a, as, b, bs)
      if y ~= nil then return y, ys end
    end
    local results, shadows = self:tycho(self.compute[op], "__" .. op, { a, b }, { as, bs }, 2)
    return results[1], shadows[1]
  end

  --- Fields of tensors: methods are constant, properties are part of what is guarded.
  function World:tensor_index(t, ts, k, ks)
    self:pin(t, ts)
    if type(k) == "string" then
      self:pin(k, ks)
      local method = rawget(self.core.internals.methods, k)
      if method ~= nil then return method, nil end
      if k == "grad" and self.objects[t] then return self:gradient(t) end
    end
    local results, shadows = self:tycho(index.get, type(k) == "string" and k or "__index", { t, k }, { ts, ks }, 2)
    return results[1], shadows[1]
  end

  function World:tensor_newindex(t, ts, k, ks, v, vs)
    self:pin(t, ts)
    if k == "grad" and self.objects[t] then
      self:pin(k, ks)
      return self:set_gradient(t, v, vs)
    end
    self:tycho(index.set, "__newindex", { t, k, v }, { ts, ks, vs }, 3)
  end

  function World:tensor_length(t, ts)
    local results, shadows = self:tycho(index.length, "length", { t }, { ts }, 1)
    return results[1], shadows[1]
  end

  --- The reason why a function of the library must not be called with n arguments, and a hint.
  local function refusal(name, n)
    if not name then return nil end
    if sub(name, 1, 1) == "_" and sub(name, 2, 2) ~= "_" then return "calls the compiler", OUTSIDE end
    local row = rows[name]
    if not row or row.capture == "setting" and n == 0 then return nil end
    local what = row.purity == "reads" and "reads data" or "changes or shows what is no part of a trace"
    return format("%s %s", name, what), row.hint
  end

  --- Whether it is a function of the library that reads the elements of tensors, and does nothing else.
  function World:reads_data(f)
    local row = rows[self:owner(f)]
    return row and row.purity == "reads" or false
  end

  --- Functions that jit.disable marked.
  local function is_disabled(world, f)
    local disabled = world.core.internals.disabled
    return disabled and disabled[f]
  end

  --- Whether a call of a function may be part of a trace, as far as is known without its arguments.
  function World:may_hold_call(f)
    if type(f) ~= "function" or is_disabled(self, f) then return false end
    if models[f] or self.closures[f] then return true end
    local name = self:owner(f)
    if name or not self.C.is_native(f) then return not refusal(name, 1) end
    return false
  end

  --- Whether a Lua function is better run than evaluated: models, and Tycho's own when nothing symbolic is given.
  function World:prefers_native(f, args, shadows, n)
    local grad = self.core.internals.grad
    if models[f] or grad.memory[f] or grad.pinned[f] or is_disabled(self, f) then return true end
    if self.closures[f] or self.C.is_native(f) or grad.inline[f] then return false end
    if refusal(self:owner(f), n) then return true end
    if not self:is_ours(f) then return false end
    for i = 1, n do
      local v, s = args[i], shadows[i]
      local kind = type(v)
      if kind == "number" and not known(s) and not s.size then return false end
      if kind == "function" and not (self.C.is_native(v) or self:is_ours(v)) then return false end
      local o = kind == "table" and self.tables[v]
      if o and (o.overlay or o.meta ~= nil) or kind == "table" and self:has_symbols(f, v) then return false end
      if kind == "table" and getmetatable(v) ~= nil and not self.constants[v] and not self:is_fixed(v)
        and not (i == 2 and grad.kept[f]) then
        return false -- evaluated, it may read what the guards tell; a native call is refused
      end
    end
    return true
  end

  --- The function inside a compiled one: pick closes over it.
  local function inside_of(world, pick, ps)
    local C = world.C
    for i = 1, 8 do
      local v = C.upvalue(pick, i)
      if type(v) == "function" and not C.is_native(v) and not world.is_wrapper(v) then
        return v, world:slot(v, { "upvalue", ps.slot, i }, "compiled function")
      end
    end
    return world:abort("a compiled function cannot be looked into")
  end

  function World:cannot_call(v)
    self:abort("error in captured code: attempt to call a " .. type(v) .. " value", nil, "error")
  end

  function World:too_deep()
    -- no place to cut at: Lua's own error of a recursion without an end tells its line only as a whole
    local hint = "call fewer functions inside of each other"
    self:abort("calls are nested deeper than a capture may follow", hint, "error")
  end

  --- Calls a function written in C, or one that prefers_native chose.
  function World:native(f, fs, args, shadows, n)
    local model = models[f]
    self:pin(f, fs)
    if model then return model(self, args, shadows, n, f) end
    if is_disabled(self, f) then self:abort("calls a function that jit.disable marked", nil, "unknown") end
    local core = self.core
    local grad = core.internals.grad
    if grad.memory[f] then return self:memory(grad.memory[f], args, shadows) end
    if self:is_thread(f) then return self.iterators[f].call(self, self.iterators[f], args, shadows, n) end
    if self.iterators[f] then return self:tycho(f, self.iterators[f], {}, {}, 0) end
    if f == core.is_tensor or f == core.internals.is_live then
      if type(args[1]) == "userdata" then self:pin(args[1], shadows[1]) else self:typed(args[1], shadows[1]) end
      return { f(args[1]) }, {}, 1
    end
    if f == core.internals.error then self:abort("an error is raised: " .. tostring(args[1]), nil, "error") end
    local name = self:owner(f) or grad.captured[f]
    if fs and fs.pick then
      local inner, is = inside_of(self, f, fs)
      return { inner }, { is }, 1
    end
    if grad.pinned[f] then
      for i = 1, n do
        if type(args[i]) == "number" then self:pin(args[i], shadows[i]) end
      end
    end
    if name or not self.C.is_native(f) and self:is_ours(f) then
      local reason, hint = refusal(name, n)
      if reason then self:abort(reason, hint) end
      local results, all, count = self:by_twin(f, args, shadows, n)
      if results then return results, all, count end
      results, all, count = self:tycho(f, name or "a function of the library", args, shadows, n)
      if grad.ends[f] and results[1] == nil then self:take_gradients() end
      return results, all, count
    end
    if self.parts and self.parts:renews(f) then
      self:abort("variables that closures share and that are assigned end, and new ones begin")
    end
    name = names.library[f]
    local row = native_table.library[name]
    local itself = row and row.capture == "itself"
    if itself and type(args[1]) == "number" and args[1] >= 1 then
      local frame, below = self:level(args[1])
      if not frame and not below then -- it is about who calls the function
        self:abort("calls " .. name, row.hint, "unknown")
      end
    end
    return self:abort(format("calls %s", name or "an unknown C function"), row and row.hint or OUTSIDE,
      not name and "unknown" or itself and "itself" or nil)
  end
end
