--- Tycho: tensors for LuaJIT. `local ty = require "tycho"`.
-- The module table is the C module's own; this file adds what is written in Lua: composites, compile and
-- its relatives, views of memory by FFI, scopes, help. Nothing global is set but fields of LuaJIT's `jit`.

---@class tycho.Tensor a tensor; its functions are also methods
---@field shape integer[] a fresh table of sizes
---@field dtype string
---@field device string
---@field ndim integer
---@field requires_grad boolean
---@field grad tycho.Tensor?
---@field is_leaf boolean
---@field nbytes integer bytes of all elements
---@field T tycho.Tensor a view with all dims in reverse
---@field mT tycho.Tensor a view with the last two dims exchanged

--- What a host lacks that has not all of Lua's functions which core.so calls, as a sentence; nil: it is something else.
local function missing(why)
  local name = tostring(why):match "undefined symbol: (luaL?_[%w_]+)"
  if not name then return nil end
  if name == "lua_upvalueid" or name == "lua_isyieldable" or not rawget(_G, "jit") and _VERSION ~= "Lua 5.1" then
    return ("tycho: this Lua is not LuaJIT (%s has no %s): Tycho needs LuaJIT 2.1"):format(_VERSION, name)
  end
  return ("tycho: the program does not show its Lua's functions to modules (%s is missing): link it with -Wl,-E, or "
    .. "with a shared libluajit-5.1, or embed libtycho"):format(name)
end

local WINDOWS = package.config:sub(1, 1) == "\\"

--- The C module lies beside this file, or where package.cpath finds it.
local function load_core()
  local ok, core = pcall(require, "tycho.core")
  if ok then return core end
  local dir = type(debug) == "table" and debug.getinfo(1, "S").source:match("^@(.*[/\\])")
  local open, why
  if dir then open, why = package.loadlib(dir .. (WINDOWS and "core.dll" or "core.so"), "luaopen_tycho_core") end
  if not open then error(missing(why or core) or core, 0) end
  return open()
end

local ty = load_core()
local sub = string.sub
local internals = ty.internals -- for the library itself and its specs
local methods, describe = internals.methods, internals.describe
local fail = internals.error
if internals.complete then return ty end -- package.loaded was cleared: this state has it all
internals.home()

--- Adds a function with its help; where as in C: "m" the module, "t" methods, "b" both.
local function define(name, where, args, text, fn)
  if where ~= "t" then ty[name] = fn end
  if where ~= "m" then methods[name] = fn end
  describe(name, args, text)
end

--- A part of the library that is loaded when it is first needed. Lua marks a module while it is loaded, and refuses one
--- that is marked: where an error has ended its loading, a debug hook's or one of memory, the mark goes.
function internals.load(name)
  local there = package.loaded[name]
  if type(there) == "table" or type(there) == "function" then return there end
  for key, value in pairs(package.loaded) do
    local kind = type(key) == "string" and sub(key, 1, 6) == "tycho." and type(value) or "table"
    if kind ~= "table" and kind ~= "function" and kind ~= "boolean" then package.loaded[key] = nil end
  end
  return require(name)
end
if jit and jit.off then jit.off(internals.load) end -- compiled, the walk was seen not to end in finalisers

--- Why a device that was named and is not there cannot be opened; nil: it is there now.
internals.opener(function(name)
  local ok, opened, why = pcall(function() return internals.load("tycho.cuda").open(name) end)
  if not ok or not opened then return tostring(why or opened) end
end)

internals.lifetimes(function(...) return internals.load("tycho.capture.lifetimes").dies(...) end)

-- Memory that others see.

local has_ffi, ffi = pcall(require, "ffi")

local elements = {
  bool = "bool", u8 = "uint8_t", i8 = "int8_t", i16 = "int16_t", i32 = "int32_t", i64 = "int64_t",
  f16 = "uint16_t", bf16 = "uint16_t", f32 = "float", f64 = "double", u16 = "uint16_t", u32 = "uint32_t",
  u64 = "uint64_t",
}

local address, from_address = internals.address, internals.from_address

local function data(x)
  if not has_ffi then return (address(x, true)) end
  local at, dtype = address(x)
  return ffi.cast(elements[dtype] .. " *", at)
end

local function from_ptr(ptr, sizes, dtype, anchor)
  if has_ffi and type(ptr) == "cdata" then
    -- ffi.typeof would keep ptr alive for a while; only metatypes, which print as they like, need it
    local kind = tostring(ptr):match("^cdata<(.*)>") or tostring(ffi.typeof(ptr)):match("^ctype<(.*)>$")
    if not kind:find("[%*%[]") or kind:find("%)$") then
      fail("from_ptr: argument 1 must be a pointer or an array, got " .. kind)
    end
    local at = tonumber(ffi.cast("uintptr_t", ffi.cast("const void *", ptr)))
    local y = from_address(at, sizes, dtype, anchor == nil and ptr or anchor)
    local room = kind:find("%]$") and not kind:find("(*", 1, true) and ffi.sizeof(ptr)
    if room and room < y:numel() * ffi.sizeof(elements[y.dtype]) then
      fail(("from_ptr: an array of %d bytes is too small for %s[%s]"):format(room, y.dtype,
        table.concat(y.shape, ",")))
    end
    return y
  end
  if type(ptr) == "number" then fail("from_ptr: argument 1 must be a pointer, got a number") end
  return from_address(ptr, sizes, dtype, anchor)
end

define("data", "t", "x",
  "an FFI pointer to the first element, float * for f32; valid while x or a view of it lives", data)
define("from_ptr", "m", "pointer, sizes, dtype = \"f32\", anchor = pointer",
  "a tensor over memory of others, which the anchor keeps alive", from_ptr)

-- Scopes.

local scope_open, scope_close = internals.scope_open, internals.scope_close

define("scope", "m", "fn, ...",
  "calls fn(...) and frees the tensors made meanwhile, but those that it returns, also in tables",
  function(fn, ...)
    if type(fn) ~= "function" then
      fail("scope: argument 1 must be a function, got " .. type(fn))
    end
    local scope = scope_open()
    return scope_close(scope, pcall(fn, ...))
  end)

-- Mixed precision, and composites: functions made of operations.

local autocast
autocast, ty._cast, ty._half = require("tycho.nn.autocast")(ty)
define("autocast", "m", "dtype, fn, ...",
  "calls fn(...) with the products of layers in that half float; sums, softmax, norms, losses give f32", autocast)

internals.composites = require("tycho.functions")(ty)

-- Gradients.

require("tycho.grad")(ty, define)

require("tycho.hooks")(ty, define)

-- Compilation; also where users of LuaJIT look for it.

local compilation = {
  compile = { "f, {fast, fullgraph, parts, dynamic, passes, backend}",
    "a function that runs f's tensor operations in fused kernels, bits equal" },
  explain = { "f", "what a compiled function did: traces, guards, misses, aborts, kernels; prints well" },
  graph = { "f, ...", "the graph that f(...) records: text, nodes, dot" },
  profile = { "fn, path = nil", "runs fn(): what each line of the source cost, compiled or not; prints well" },
  view = { "f, path", "writes one HTML page: source, parts, guards, graphs, plans, kernels, machine code, times" },
  export = { "f, path, given = nil", "writes f as one C file and a header, which need no library" },
  reset = { "f", "forgets what was compiled for f" },
  disable = { "f", "keeps f from being captured by compiled functions that call it" },
  warmup = { "f, ...", "calls f once so that later calls find it compiled" },
  start = { "f, ...", "a call in slices of time: run:step(microseconds) tells whether it is done, then run:results()" },
  stance = { "name = nil", "how compiled functions run: default, eager or no_recompile" },
  budget = { "ms = nil", "how many milliseconds a capture may take inside a call; math.huge at first" },
  deadline = { "ms, fn, ...", "calls fn(...), and raises in its operations when so many milliseconds are over" },
  check = { "f, n = 0", "runs f as written beside every n-th call and raises where a bit differs" },
  pass = { "name, fn", "registers a pass over captured graphs, which {passes = {name}} of compile runs" },
}
local jit_table = rawget(_G, "jit")
for name, fn in pairs(require("tycho.compile").open(ty)) do
  local about = assert(compilation[name], name)
  local other = ty[name] or name == "profile" -- jit.view is not the view of a tensor, jit.profile not ty.profile
  if other then describe("jit." .. name, about[1], about[2])
  else define(name, "m", about[1], about[2], fn) end
  if type(jit_table) == "table" then jit_table[name] = fn end
end
-- Modules, optimisers: loaded when they are asked for.

-- Help, images, progress, profile: loaded when they are called first.

for name, about in pairs {
  help = { "what = nil",
    "the help of a function, given or named, \"nn.Linear\", or of a group, \"nn\"; without one prints all names" },
  plot = { "{title, xlabel, ylabel, xscale, yscale, xlim, ylim, width, height, legend, grid, theme, axes}",
    "an empty plot, or rows of plots as one; its methods draw, save writes SVG or PNG" },
  progress = { "what, {label, unit, per_step, total, curve, height}",
    "a progress bar over n steps, a list or an iterator, with rate, values, time left" },
  show = { "x, {mode, width, map, lim, columns, text}", "shows a vector, a matrix or an image in the terminal" },
  anomaly = { "fn, ...",
    "calls fn(...) and raises at the first operation that makes a NaN or an infinity, forward or backward",
    "detect_anomaly" },
  gradcheck = { "fn, args, {eps, atol, rtol, raise}",
    "compares fn's gradients with differences of its values, in f64; raises and names the elements where they differ" },
  profile = { "fn, path = nil", "runs fn(): a table of its hottest kernels; a trace for chrome://tracing in a file" },
} do
  local fn
  define(about[3] or name, "m", about[1], about[2], function(...)
    fn = fn or internals.load("tycho." .. name)
    return fn(...)
  end)
end

--- Files: what is behind these names is loaded when one of them is first called.
for name, about in pairs {
  load = { "path, opts = nil", "what a file holds, by its ending: tensors, tables, images; nil and a message" },
  save = { "path, value, opts = nil", "writes a file whole or not at all, by its ending; true, or nil and a message" },
  load_weights = { "path, opts = nil",
    "the tensors of a directory of safetensors, of its index, or of one file, by name" },
  save_checkpoint = { "path, parts",
    "writes models, optimisers, schedules, numbers, texts by name; true, or nil and a message" },
  load_checkpoint = { "path, into = nil, opts = nil",
    "what save_checkpoint wrote, taken up by the parts of `into`; nil and a message" },
} do
  define(name, "m", about[1], about[2], function(...) return internals.load("tycho.files")[name](...) end)
end

local parts = { nn = true, optim = true, files = true, csv = true, image = true, data = true, cuda = true, dist = true }
internals.parts = parts
local formats = { csv = true, image = true } -- fields of ty.files
setmetatable(ty, {
  __index = function(t, name)
    if not parts[name] then return nil end
    t[name] = formats[name] and internals.load("tycho.files")[name] or internals.load("tycho." .. name)
    return rawget(t, name)
  end,
})
internals.complete = true

return ty
