--- embed.lua -- the Lua side of the C API (core/tycho.h): model files are run, what they return is compiled.
-- In: paths, texts, weights. Out: for C a record of a function that can be called; C calls it, and reads its results.
-- Raises, with the path, what is wrong.

local ty = require "tycho"
local internals, nn = ty.internals, ty.nn
local type, error, pairs, getmetatable, rawget = type, error, pairs, getmetatable, rawget
local format = string.format

local M = {}

local function fail(fmt, ...) return error(format(fmt, ...), 0) end

--- What loadstring says; LuaJIT loses the message of a parser that memory ran out for.
local function said(why) return type(why) == "string" and why or "not enough memory" end

--- The tensors of a file or a directory, by name; what has no names is under "value".
---@param path string
---@return table<string, tycho.Tensor>
function M.weights(path)
  local named = path:find("%.%w+$") and not path:find("%.safetensors$") and not path:find("%.json$")
  local value, why = (named and ty.load or ty.load_weights)(path)
  if value == nil then fail("%s", why) end
  if ty.is_tensor(value) then value = { value = value } end
  local found = {}
  for name, t in pairs(value) do
    if type(name) ~= "string" or not ty.is_tensor(t) then fail("%s: holds other things than tensors by name", path) end
    found[name] = t:contiguous()
  end
  return found
end

-- The engine's device, nil: the CPU; and the state's before.
local device, before

--- Models work there from now on; nil: as before. Raises where there is no such device.
---@param name? string
function M.device(name)
  if device then ty.device(before) end
  device = nil
  if name == nil then return end
  before = ty.device()
  local ok, why = ty.device(name)
  if not ok then fail("%s", why) end
  if ok ~= "cpu" then device = ok end
end

--- A copy of weights on the engine's device.
local function on_device(weights)
  local there = {}
  for name, t in pairs(weights) do there[name] = t:to(device) end
  return there
end

--- A module takes up weights; those that it can hold as they are it shares.
local function take_up(module, weights)
  module:load_state_dict(weights)
  for name, t in pairs(module:state_dict()) do
    if weights[name] then M.share(t, weights[name]) end
  end
end

--- What stands around the user's functions is evaluated with them, as the library's own functions are not: a chunk by
--- another name.
local around = assert(loadstring([[
local no_grad, is_tensor = ...
local M = {}
function M.module(m)
  local function run(...) return m(...) end
  return function(...) return no_grad(run, ...) end
end
function M.callable(t) return function(...) return t(...) end end
function M.method(t, name) return function(...) return t[name](t, ...) end end
function M.on(fn, device)
  local function moved(n, x, ...)
    if n == 0 then return end
    if is_tensor(x) then x = x:to(device) end
    if n == 1 then return x end
    return x, moved(n - 1, ...)
  end
  return function(...) return fn(moved(select("#", ...), ...)) end
end
return M
]], "=model"))(ty.no_grad, ty.is_tensor)

--- The function that a call of such a value runs.
local function callable(value, where)
  if type(value) == "function" then return value end
  if type(value) ~= "table" then
    fail("%s: returns %s; a model's file returns a function, a module, or a table with `forward`", where,
      value == nil and "nothing" or "a " .. type(value))
  end
  if nn.is_module(value) then return around.module(value) end
  if type(value.forward) == "function" then return around.method(value, "forward") end
  local meta = getmetatable(value)
  if type(meta) == "table" and rawget(meta, "__call") then return around.callable(value) end
  return fail("%s: returns a table without `forward`", where)
end

local function options_of(text)
  if text == nil then return nil end
  local chunk, why = loadstring("return {" .. text .. "}", "=options")
  if not chunk and type(why) ~= "string" then fail("options: %s", said(why)) end
  if not chunk then fail("options: %q is not the inside of a Lua table", text) end
  -- `fullgraph` for `fullgraph = true` would be a nil in the list.
  local function unknown(_, name)
    fail("options: %s is no value; an option is given as in \"fullgraph = true\"", name)
  end
  return setfenv(chunk, setmetatable({}, { __index = unknown }))()
end

local function record_of(value, fn, options)
  local f = ty.compile(device and around.on(fn, device) or fn, options)
  local answer, borrowed = internals.answers(f)
  return { call = f, warm = function(...) return ty.warmup(f, ...) end, answer = answer, borrowed = borrowed,
    value = value, options = options }
end

local SOURCE_MOST = 2 ^ 28 -- bytes

--- Read as weights are: on Windows Lua's own files are none whose path is UTF-8.
local function load_file(path)
  local text, why = internals.load("tycho.files")._native.text(path, SOURCE_MOST)
  if not text then return nil, why end
  return loadstring(text, "@" .. path)
end

--- Runs a model's file.
---@param path? string
---@param text? string Lua source, where there is no path
---@param name? string the text's name
---@param weights? string|table a file's path, or tensors by name
---@param options? string of compile, as the inside of a table
function M.load(path, text, name, weights, options)
  local where = path or name or "model"
  local chunk, why
  if path then chunk, why = load_file(path) else chunk, why = loadstring(text, "=" .. where) end
  if not chunk then fail("%s", said(why)) end
  if type(weights) == "string" then weights = M.weights(weights) end
  if device and weights then weights = on_device(weights) end
  local value = chunk(weights)
  local fn = callable(value, where)
  if device and type(value) == "table" and nn.is_module(value) then value:to(device) end
  if weights and type(value) == "table" and nn.is_module(value) then take_up(value, weights) end
  return record_of(value, fn, options_of(options))
end

--- No capture may take longer than calls, where those have a limit in milliseconds; nil: they have none. Gives whether
--- LuaJIT compiles.
function M.limit(ms)
  ty.budget(ms or math.huge)
  local jit = rawget(_G, "jit")
  return type(jit) == "table" and (jit.status())
end

--- Another function of the table that a model's file returned.
function M.method(record, name)
  local value = record.value
  local fn = type(value) == "table" and value[name]
  if type(fn) ~= "function" then
    fail("the model has no function %q; it is %s", name, type(value) == "table" and "not in its table" or "no table")
  end
  return record_of(value, around.method(value, name), record.options)
end

--- Begins a call in slices of time.
function M.start(call, ...) return ty.start(call, ...) end

--- Goes on with it, below 0 to its end. Gives whether it has ended; then whether compiled code alone answered, and its
--- results.
function M.step(run, microseconds)
  if not run:step(microseconds >= 0 and microseconds or nil) then return false end
  return true, not run.in_lua, run:results()
end

--- Leaves it undone, though an error may have come out of its middle.
function M.cancel(run)
  run.runs = false
  run:cancel()
end

return M
