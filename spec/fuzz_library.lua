-- Random functions over Lua's library and Tycho's: plain against compiled, while functions of the library are replaced.
--   luajit spec/fuzz_library.lua [programs = 10000] [seed = another each time] [only this program]
-- A program calls functions by global names, by locals, as methods of strings, through an environment of its own. Between
-- calls some of them are replaced by others, taken away, added, or put back: in string, math, table, the globals, the table
-- that strings find their methods in, Tycho's module. The accounts of the plain and of the compiled function must be equal.

jit.off() -- LuaJIT 2.1.0-beta3 compiles math.floor() without an argument to a number, in parts of functions, too

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame = dofile(here .. "/fuzz_frame.lua")

-- --- what programs call: text of an expression over a number x, a string s, a table t, a tensor v

local CALLS = {
  "math.floor(x)", "math.max(x, 2)", "floor(x)", "math.extra", "x + (math.extra or 0)",
  "s:upper()", "s:rep(2)", "s:sub(2)", "string.upper(s)", "string.format('%s!', s)", "('%d'):format(7)", "upper(s)", "s:extra()",
  "s.extra", "#s:lower()", "getmetatable(s).__index.rep(s, 3)", "string.extra", "(s:gsub('a', 'b'))",
  "table.concat(t, ',')", "concat(t)", "select('#', x, s)", "tostring(x)", "tonumber('12')", "type(s)", "#t", "unpack(t)", "next(t) ~= nil",
  "rawget(t, 1)", "global(x)", "global", "ty.relu(v)", "ty.ones(2)", "v:sum()", "ty.softmax(v, 1)", "ty.extra", "pcall(s.rep, s, 2)",
  "setmetatable({ x }, { __index = t })[2]", "ipairs(t)", "v + 1", "-v", "ty.gelu(v)",
  "ty.no_grad(ty.neg, v)", "pcall(ty.relu, s)", "pcall(ty.no_grad, s)",
}

-- Calls of functions with arguments of all kinds.

local FUNCTIONS = { -- table.insert moves 2^31 elements where its position is odd enough
  "table.remove", "table.concat", "rawset", "rawget", "rawequal", "select", "unpack", "next", "iterate", "tonumber",
  "tostring", "type", "string.sub", "string.format", "string.byte", "math.max", "math.floor", "setmetatable", "getmetatable", "ipairs",
  "error", "assert", "pcall",
}
local ARGUMENTS = {
  "t", "t", "t", "s", "x", "1", "2", "0", "-1", "0.5", "2 ^ 31", "2 ^ 32 + 1", "1e300", "0 / 0", "false", "true", "nil", "'2'", "'a'",
  "{}", "v", "LL", "NULL", "P", "'#'", "nulls", "{ 3, 1 }",
}

local function odd_call(int)
  local args = {}
  for i = 1, int(5) - 1 do args[i] = i == 1 and int(2) == 1 and "t" or ARGUMENTS[int(#ARGUMENTS)] end
  return ("plainly(pcall(function() return %s(%s) end))"):format(FUNCTIONS[int(#FUNCTIONS)], table.concat(args, ", "))
end

-- --- what is changed: tables by name, and what may stand there

local TABLES = { "string", "math", "table", "G", "methods", "ty", "globals" }
local KEYS = {
  string = { "upper", "rep", "sub", "format", "extra", "lower", "gsub" },
  math = { "floor", "max", "extra" },
  table = { "concat", "sort", "insert", "remove" },
  G = { "global", "floor", "tostring", "tonumber", "type", "select", "unpack", "rawget", "next", "pcall", "error", "assert",
    "getmetatable", "setmetatable", "ipairs", "pairs" },
  methods = { "__index" },
  ty = { "relu", "softmax", "extra", "ones" },
  globals = { "tostring", "type", "pcall", "error", "select", "unpack", "ipairs", "pairs", "getmetatable", "setmetatable" },
}

-- Texts of values, with the function that stood there as `was`.
local VALUES = {
  "function(...) return was(...) end", "function() return 7 end", "function(a) return a end", "nil", "5", "math.ceil", "'text'", "was",
}
local INDEXES = {
  "function(t, k) if k == 'upper' then return function(v) return v .. '?' end end return library[k] end",
  "setmetatable({ lower = function(v) return v .. '-' end }, { __index = library })", "library", "nil", "{ len = 5 }", "false",
}

local function make(seed)
  local int = frame.random(seed, 3)
  local program = { changes = {}, compiled = int(4) } -- before which call
  for k = 1, 1 + int(4) do
    local call = int(16) == 1 and odd_call(int) or CALLS[int(#CALLS)]
    program[k] = int(4) == 1 and ("if x > %d then r[#r + 1] = %s end"):format(int(3), call) or ("r[#r + 1] = %s"):format(call)
  end
  for c = 1, 8 do
    local change
    if c > 1 and int(2) == 1 then
      local name = TABLES[int(#TABLES)]
      local key = KEYS[name][int(#KEYS[name])]
      local value = VALUES[int(#VALUES)]
      if int(3) == 1 then value = "original" end
      change = { name, key, name == "methods" and INDEXES[int(#INDEXES)] or value }
    end
    program.changes[c] = change or false
  end
  return program
end

local function source(program)
  local lines = {}
  for k, s in ipairs(program) do lines[k] = "  " .. s end
  return "local ty = ...\nlocal upper, concat = string.upper, table.concat\nreturn function(x, s, t, v)\n  local r = {}\n"
    .. table.concat(lines, "\n") .. "\n  return r\nend"
end

local function show(program)
  local lines = { source(program) }
  for c, change in ipairs(program.changes) do
    if c == program.compiled then lines[#lines + 1] = "-- compiled here" end
    lines[#lines + 1] = ("-- call %d%s"):format(c, change and (", after %s.%s = %s"):format(change[1], change[2], change[3]) or "")
  end
  return table.concat(lines, "\n")
end

-- --- accounts

local text_of, write, pairs, ipairs, kind_of = tostring, table.concat, pairs, ipairs, type
local protected, capture_all, is_tensor, format = pcall, function(...) return { ... } end, ty.is_tensor, string.format
local gsub, load, rawget, rawset = string.gsub, loadstring, rawget, rawset

local function text(v)
  if is_tensor(v) then return "tensor " .. text_of(v) end
  if kind_of(v) == "number" then return format("%.17g", v) end
  if kind_of(v) == "function" then return "function" end
  if kind_of(v) ~= "table" then return (gsub(gsub(text_of(v), "^.-:%d+: ", ""), "0x%x+", "")) end
  local list = {}
  for i = 1, 12 do list[i] = v[i] == nil and "nil" or kind_of(v[i]) == "table" and "table" or text(v[i]) end
  return write(list, ", ")
end

local GLOBALS = {} -- as they are before any is replaced: changes are made with them
for k, v in pairs(_G) do GLOBALS[k] = v end

local counts = { calls = 0, raised = 0, skips = 0, captured = 0 }

--- The tables that are changed. Globals are those of an environment of its own.
local function places(env)
  return { string = string, math = math, table = table, G = env, methods = getmetatable "", ty = ty, globals = _G }
end

local has_ffi, ffi = pcall(require, "ffi")
local LL, NULL = has_ffi and ffi.new("int64_t", 1) or 1, has_ffi and ffi.new "void *" or 1

--- What a protected call gave, as text; objects by their type alone.
local function plainly(...)
  local given, list = { ... }, {}
  for i = 1, 4 do
    local v = given[i]
    local kind = kind_of(v)
    list[i] = (kind == "number" or kind == "string" or kind == "boolean") and text(v) or kind
  end
  return write(list, " ")
end

local function run(program, compile)
  local P = newproxy(true)
  getmetatable(P).__eq = function() return true end
  local env = setmetatable({ P = P, LL = LL, NULL = NULL, nulls = { NULL, 1, a = NULL }, iterate = ipairs {}, plainly = plainly,
    global = function(x) return x * 2 end, floor = math.floor }, { __index = _G })
  local tables, saved = places(env), {}
  for name, keys in pairs(KEYS) do
    for _, key in ipairs(keys) do saved[#saved + 1] = { tables[name], key, rawget(tables[name], key) } end
  end
  local originals = {}
  for _, entry in ipairs(saved) do
    originals[entry[1]] = originals[entry[1]] or {}
    originals[entry[1]][entry[2]] = entry[3]
  end
  local body = setfenv(assert(load(source(program), "=program")), env)(ty)
  local f = body
  local v = ty.range(3) - 2
  local accounts, makers, library = {}, {}, string
  for c, change in ipairs(program.changes) do
    makers[c] = change and change[3] ~= "original"
      and setfenv(assert(load("local was, library = ... return " .. change[3], "=change")), GLOBALS)
  end
  local fine, why = protected(function()
    for c, change in ipairs(program.changes) do
      if change then
        local t, key = tables[change[1]], change[2]
        local value
        if makers[c] then value = makers[c](rawget(t, key), library) else value = originals[t][key] end
        rawset(t, key, value)
      end
      if c == program.compiled then f = compile(body) end
      accounts[c] = capture_all(protected(f, c % 4, "abc", { 1, 2, "x" }, v))
    end
  end)
  for _, entry in ipairs(saved) do rawset(entry[1], entry[2], entry[3]) end
  if not fine then error(why, 0) end
  for c, results in ipairs(accounts) do accounts[c] = text_of(results[1]) .. " " .. text(results[2]) end
  counts.calls = counts.calls + #accounts
  for _, a in ipairs(accounts) do
    if a:sub(1, 4) ~= "true" then counts.raised = counts.raised + 1 end
  end
  return accounts, f
end

local function check(program)
  local plain = run(program, function(f) return f end)
  local compiled, f = run(program, function(f) return ty.compile(f) end)
  for c = 1, #plain do
    if plain[c] ~= compiled[c] then return ("call %d differs\nplain    %s\ncompiled %s"):format(c, plain[c], compiled[c]) end
  end
  return nil, f
end

local function passed(_, _, f)
  local e = ty.explain(f)
  counts.skips = counts.skips + e.skips
  if e.captures > 0 then counts.captured = counts.captured + 1 end
end

do -- modules are loaded by their first use, with the library as it is then
  local first = ty.compile(function(v, s) return ty.no_grad(ty.softmax, ty.gelu(v), 1), pcall(ty.relu, s) end)
  for _ = 1, 2 do first(ty.ones(2), "abc") end
end

local fuzz = frame.fuzzer("fuzz_library", 10000, { make = make, check = check, show = show, passed = passed })
fuzz:run(5000)

fuzz:claim(fuzz.failures == 0, "%d programs differ between plain and compiled", fuzz.failures)
if fuzz:ran(400) then
  fuzz:claim(counts.raised < 0.5 * counts.calls, "%d of %d calls raise, fewer than half", counts.raised, counts.calls)
  fuzz:claim(counts.captured >= 0.5 * fuzz.programs, "%d of %d programs are captured, at least half", counts.captured, fuzz.programs)
  fuzz:claim(counts.skips >= 0.15 * counts.calls, "%d of %d calls skipped Lua, one in seven", counts.skips, counts.calls)
end
print(("fuzz_library: %d programs, seed %d, %.0f s: %d calls, plain and compiled, %d raise, %d answered without Lua; %d programs "
  .. "captured"):format(fuzz.programs, fuzz.seed, fuzz:seconds(), counts.calls, counts.raised, counts.skips, counts.captured))
fuzz:leave()
