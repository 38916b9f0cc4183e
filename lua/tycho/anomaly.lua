--- anomaly.lua -- `ty.detect_anomaly`: the operation that makes the first NaN or infinity, forward or backward.
-- In: a function, or true and false. Out: the function's results; an error at the line where the operation was called,
-- which names the operation, the element, and the module that runs.
--
-- While it lasts, a function of Lua's stands in the place of each method and operator of tensors, and compiled
-- functions run as they are written. It is slow: each result is looked at, and waited for.
-- 1. An operation is to blame when its result holds NaN or infinity and what it was given does not. Infinities among
--    its arguments, as masks have them, excuse those in its result. NaN from outside is told as what was given.
-- 2. Each tensor that needs a gradient gets a hook (hooks.lua). The first gradient that is not finite came from
--    an operation that read the tensor. Of several such, each is differentiated again, on its own.
-- 3. Functions that nobody else's code may see change (item, backward ...) give no tensors, and are not looked at.
-- 4. All is put back, whatever ends it. What the library's own files have taken as locals is not seen by itself; the
--    next operation that reads its result tells of it.

local ty = require "tycho"

local check = require("tycho.arguments")(ty)
local internals = ty.internals
local type, pairs, ipairs, rawget, rawset, select, unpack = type, pairs, ipairs, rawget, rawset, select, unpack
local methods, metatable = internals.methods, internals.metatable
local is_live, storage = internals.is_live, internals.grad.storage
local register_hook = methods.register_hook
local raw = {} -- as they are outside
for _, name in ipairs { "isnan", "isinf", "any", "item", "detach", "backward", "reshape", "argmax", "to" } do
  raw[name] = methods[name]
end

local OPERATORS = { __add = "add", __sub = "sub", __mul = "mul", __div = "div", __pow = "pow", __unm = "neg",
  __mod = "mod", __concat = "concat" }
local BY_KEY = { __index = "index", __newindex = "assign" }
local NOT = { register_hook = true, backward = true, release = true, requires_grad_ = true, detach = true }

local state -- while it lasts: {undo, records by storage, hooked, busy}

local function is_float(t)
  local d = t.dtype
  return d == "f32" or d == "f64" or d == "f16" or d == "bf16"
end

--- "nan" or "inf" and where, for a tensor that holds one; NaN first.
local function find(t)
  if not is_live(t) or not is_float(t) or t:numel() == 0 then return nil end
  t = raw.detach(t)
  local what, mask = "NaN", raw.isnan(t)
  if not raw.item(raw.any(mask)) then
    what, mask = "infinity", raw.isinf(t)
    if not raw.item(raw.any(mask)) then return nil end
  end
  local k = raw.item(raw.argmax(raw.to(raw.reshape(mask, -1), "i32"))) - 1
  local at, shape = {}, t.shape
  for d = #shape, 1, -1 do
    at[d] = k % shape[d] + 1
    k = (k - at[d] + 1) / shape[d]
  end
  return what, #at > 0 and (" at [%s]"):format(table.concat(at, ", ")) or ""
end

--- "path (Class), file:line" of the user's code that runs, as errors have it.
local function place()
  local where = ""
  for level = 2, 200 do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    if info.what ~= "C" and not internals.is_ours(info.source) then
      where = ("%s:%d"):format(info.short_src, info.currentline)
      break
    end
  end
  local located = internals.name_module and internals.name_module(where, "")
  return located and located:gsub(": $", "") or where
end

--- Calls fn while nothing is looked at.
local function quietly(fn, ...)
  local s = state
  s.busy = true
  local ok, a, b = pcall(ty.no_grad, fn, ...)
  s.busy = false
  if not ok then error(a, 0) end
  return a, b
end

--- Which of the operations that read a tensor gives the gradient that is not finite.
local function blamed(readers)
  if #readers == 1 then return readers[1] end
  for i = #readers, 1, -1 do
    local r = readers[i]
    local g = state.gradient[r.result]
    local found = g and not find(g) and pcall(ty.enable_grad, function()
      local args = { unpack(r.args, 1, r.args.n) }
      local own
      for k = 1, r.args.n do
        if is_live(args[k]) and is_float(args[k]) then
          args[k] = raw.detach(args[k]):clone():requires_grad_()
          if storage(r.args[k]) == r.of then own = args[k] end
        end
      end
      raw.backward(r.fn(unpack(args, 1, r.args.n)), g)
      if not find(own.grad) then error() end
    end)
    if found then return r end
  end
  return readers[#readers]
end

--- The hook of a tensor.
local function look(of, g)
  if not state or state.busy then return end
  state.gradient[of] = g
  local what, at = quietly(find, g)
  if not what then return end
  local readers = state.readers[of]
  local r = readers and quietly(blamed, readers)
  if not r then
    check.fail("detect_anomaly", "the gradient that the backward pass began with holds %s%s (%s)", what, at,
      check.text(g))
  end
  check.fail("detect_anomaly", "the gradient of %s gives %s%s (%s); it was called at %s", r.name, what, at,
    check.text(g), r.place)
end

--- A hook on what needs a gradient, once; views of parts are seen where their memory's gradient is.
local function watch(t)
  if not t.requires_grad then return end
  local of = storage(t)
  if state.hooked[of] then return end
  local ok, handle = pcall(register_hook, t, function(g) look(of, g) end)
  if ok then
    state.hooked[of] = t -- keeps the number from coming again
    state.handles[#state.handles + 1] = handle
  end
end

local function note(name, fn, args, result)
  local readers, of_result = state.readers, storage(result)
  for i = 1, args.n do
    local v = args[i]
    if is_live(v) and v.requires_grad and is_float(v) then
      watch(v)
      local of = storage(v)
      if of ~= of_result then
        readers[of] = readers[of] or {}
        readers[of][#readers[of] + 1] = { name = name, fn = fn, args = args, of = of, result = of_result,
          place = place() }
      end
    end
  end
  watch(result)
end

--- What is not finite among the arguments: "NaN" or "infinity", the number of the argument, where.
local function given(args)
  local worst, which, where
  local function see(v, i)
    local what, at
    if is_live(v) then what, at = find(v)
    elseif type(v) == "number" and v ~= v then what, at = "NaN", ""
    elseif type(v) == "number" and (v == 1 / 0 or v == -1 / 0) then what, at = "infinity", ""
    elseif type(v) == "table" and not worst then
      for _, w in ipairs(v) do
        if is_live(w) then see(w, i) end
      end
    end
    if what and worst ~= "NaN" then worst, which, where = what, i, at end
  end
  for i = 1, args.n do see(args[i], i) end
  return worst, which, where
end

--- Raises where the operation is to blame.
local function judge(name, args, result)
  local what, at = find(result)
  if not what then return end
  local before, i, where = given(args)
  if before == what or before == "NaN" then
    if before == "NaN" then
      check.fail("detect_anomaly", "%s is given NaN: argument %d%s", name, i, where)
    end
    return
  end
  check.fail("detect_anomaly", "%s gives %s%s (%s)", name, what, at, check.text(result))
end

local function pack(...) return { n = select("#", ...), ... } end

--- What an operation gave, after it was looked at.
local function seen(name, fn, args, ...)
  local result = ...
  if name == "assign" then result = args[1] end
  if state and not state.busy and is_live(result) and is_float(result) then
    quietly(judge, name, args, result)
    if ty.internals.grad.mode() then
      state.busy = true
      local ok, e = pcall(note, name, fn, args, result)
      state.busy = false
      if not ok then error(e, 0) end
    end
  end
  return ...
end

--- What stands in an operation's place.
local function instead(name, fn)
  return function(...)
    if not state or state.busy then return fn(...) end
    return seen(name, fn, pack(...), fn(...))
  end
end

local function replace(t, key, name)
  local fn = rawget(t, key)
  if type(fn) ~= "function" then return end
  state.undo[#state.undo + 1] = { t, key, fn }
  rawset(t, key, instead(name, fn))
end

local function begin()
  state = { undo = {}, readers = {}, hooked = {}, handles = {}, gradient = {} }
  state.stance = ty.stance "eager"
  for key, name in pairs(OPERATORS) do replace(metatable, key, name) end
  for key, name in pairs(BY_KEY) do replace(metatable, key, name) end
  local names = {}
  for name in pairs(methods) do names[#names + 1] = name end
  for _, name in ipairs(names) do
    if not NOT[name] then
      local same = rawget(ty, name) == methods[name]
      replace(methods, name, name)
      if same then
        state.undo[#state.undo + 1] = { ty, name, rawget(ty, name) }
        ty[name] = methods[name]
      end
    end
  end
end

local function finish()
  local s = state
  state = nil
  for i = #s.undo, 1, -1 do
    local u = s.undo[i]
    rawset(u[1], u[2], u[3])
  end
  for _, h in ipairs(s.handles) do h:remove() end
  ty.stance(s.stance)
end

local function leave(ok, ...)
  finish()
  if not ok then return error(..., 0) end
  return ...
end

--- Calls fn(...) and gives its results; raises at the first operation that makes a NaN or an infinity, in it or in
--- the backward passes that it runs: the error names the operation, the element, the module, and the line of the call.
--- Compiled functions run as they are written meanwhile. Or true: from now on, and false: no more; it gives whether it
--- was on.
--- Raises at that operation, and what fn raises.
---@param fn function|boolean
---@param ... any what fn is given
---@return any ...
return function(fn, ...)
  if type(debug) ~= "table" then check.fail("detect_anomaly", "this host has no debug library") end
  if type(fn) == "boolean" then
    local was = state ~= nil
    if fn and not was then begin() elseif was and not fn then finish() end
    return was
  end
  if type(fn) ~= "function" and not (type(fn) == "table" and (getmetatable(fn) or {}).__call) then
    check.fail("detect_anomaly", "argument 1 must be a function, true or false, got %s", check.show(fn))
  end
  if state then return fn(...) end
  begin()
  return leave(pcall(fn, ...))
end
