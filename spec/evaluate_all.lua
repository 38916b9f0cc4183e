--- evaluate_all.lua -- runs a whole Lua program under the evaluator: TYCHO_EVAL=all ./tycho script.lua args...
-- In: a script. Out: what the script does; at its end one line on stderr that counts functions: evaluated (with their
-- calls), aborted, skipped. Fails as the script fails, and where the evaluator gives up.
--
-- The world is plain_world.lua's, in which everything means what it means in Lua. Each coroutine has a world of its own,
-- since a world has one stack. Functions are evaluated wherever they come from: chunks however they are loaded, and Lua
-- functions that are given to pcall, coroutine.wrap and their kin. Tycho's own run natively, and are counted as skipped.
-- Compiled functions are evaluated, too, and record what they do: their captures are turned off, since what would be
-- captured is this file. compare_programs.lua compares programs that are run both ways.
--
-- What differs from a native run, and why:
-- 1. Hooks would be called for the evaluator's lines: a chunk that names sethook runs natively with all that it defines.
-- 2. Time, memory and the steps of the collector, addresses, numbers of anonymous structs, and how deep pcall and
--    metamethods may nest (the evaluator's own calls lie between them; other calls nest as natively) are the evaluator's;
--    Tycho and ffi are loaded. Whether "stack overflow" has a place differs between hosts, and with traces: here it has.
-- 3. Where a native function calls another one, the stack as debug and error levels above 2 tell it lacks the one.
-- 4. What the jit library tells or sets is about the functions that stand for closures: jit.off(f) does nothing.
-- 5. A concatenation that grows beyond what a string can hold is out of memory before.
-- 6. A weak table loses keys later where a coroutine that is suspended for good holds itself.

local evaluate = require "tycho.capture.evaluate"
local bytecode = require "tycho.capture.bytecode"
local plain_world = require "spec.plain_world"
local ty = require "tycho"

ty.internals.capture.off = true

local unpack, select, loadfile, loadstring, xpcall, type = unpack, select, loadfile, loadstring, xpcall, type

local counts = { calls = 0, aborted = 0, evaluated = 0, skipped = 0 }
local counted = setmetatable({}, { __mode = "k" }) -- by prototype or function

local function count(what, key)
  if counted[key] then return end
  counted[key] = true
  counts[what] = counts[what] + 1
end

local function source_of(f) return debug.getinfo(f, "S").source end

local home = source_of(evaluate.run):match("^(@.*[/\\])capture[/\\]") -- the library's
local own = source_of(function() end)
local root = own:match("^@(.*)spec[/\\]") or ""
package.path = package.path:gsub("[^;]*", function(path) return path == root .. "?.lua" and "" or nil end):gsub(";;+", ";")
  :gsub(";$", "")

-- What runs natively ---------------------------------------------------------------------------------------------------

local shy = setmetatable({}, { __mode = "k" })

--- Whether a function from outside must run natively.
local function is_shy(f)
  if shy[f] == nil then
    local source = source_of(f)
    local of_ours = source:sub(1, #home) == home or source:sub(1, 8) == "=(tycho)" or source == own
    local ok, text = pcall(string.dump, f)
    shy[f] = of_ours or not ok or text:find("sethook", 1, true) ~= nil
  end
  return shy[f]
end

local function prefers_native(_, f)
  if is_shy(f) then
    if source_of(f) ~= own then count("skipped", f) end
    return true
  end
  local proto = bytecode.prototype(f)
  if proto then count("evaluated", proto) end
  counts.calls = counts.calls + 1
  return false
end

-- Worlds ---------------------------------------------------------------------------------------------------------------

local worlds = setmetatable({}, { __mode = "k" })
local main = {}
local find_closure = plain_world().closure_of

local function closure_of(_, f)
  local closure = find_closure(nil, f)
  if closure then
    count("evaluated", closure.proto)
    counts.calls = counts.calls + 1
  end
  return closure
end

local call -- calls any value in the world of the running coroutine

local function world_of(thread)
  local world = worlds[thread]
  if not world then
    world = plain_world()
    local abort, native = world.abort, world.native
    world.steps_left, world.max_depth = math.huge, math.huge
    world.prefers_native, world.closure_of = prefers_native, closure_of
    function world.enter(placeholder, _, ...) return call(placeholder, ...) end
    function world.abort(self, reason)
      counts.aborted = counts.aborted + 1
      return abort(self, reason)
    end
    --- Functions that call what they are given, and do not show it: Lua functions among these are evaluated, too.
    local calls = { [pcall] = true, [xpcall] = true, [coroutine.create] = true, [coroutine.wrap] = true, [table.sort] = true,
      [string.gsub] = true, [table.foreach or 1] = true, [table.foreachi or 1] = true }
    function world.native(self, f, fs, args, shadows, n)
      for k = 1, calls[f] and n or 0 do
        local v = args[k]
        local lua = type(v) == "function" and not find_closure(nil, v) and bytecode.prototype(v) and not is_shy(v)
        local called = k == 1 and type(v) == "table" and (f == pcall or f == xpcall) and self:metamethod(v, nil, "__call")
        if lua or called or v == debug.traceback then
          args[k] = function(...) return call(v, ...) end
        end
      end
      return native(self, f, fs, args, shadows, n)
    end
    worlds[thread] = world
  end
  return world
end

local function enter(f, ...) return f(...) end

function call(f, ...)
  local world = world_of(coroutine.running() or main)
  local results, _, n
  if world.stack and world.stack.depth > 0 then
    results, _, n = world.apply(f, nil, { ... }, {}, select("#", ...))
  else
    results, _, n = evaluate.run(world, enter, nil, { f, ... }, {}, 1 + select("#", ...))
  end
  return unpack(results, 1, n)
end

-- Chunks are evaluated however they are loaded --------------------------------------------------------------------------

local function searcher(name)
  local path, tried = name:gsub("%.", "/"), ""
  for template in package.path:gmatch("[^;]+") do
    local file = template:gsub("%?", path)
    local f = io.open(file)
    if f then
      f:close()
      local chunk, err = loadfile(file)
      if not chunk then
        error(("error loading module '%s' from file '%s':\n\t%s"):format(name, file, err), 0)
      end
      if is_shy(chunk) then
        if source_of(chunk):sub(1, #home) ~= home then count("skipped", chunk) end
        return chunk
      end
      return function(...) return call(chunk, ...) end
    end
    tried = tried .. "\n\tno file '" .. file .. "'"
  end
  return tried
end

package.loaders[2] = searcher

function _G.dofile(file)
  local chunk, err = loadfile(file)
  if not chunk then error(err, 0) end
  return call(chunk)
end

-- The script ------------------------------------------------------------------------------------------------------------

local function report()
  io.stdout:flush()
  io.stderr:write(("evaluated %d functions in %d calls, aborted %d, skipped %d\n"):format(counts.evaluated, counts.calls,
    counts.aborted, counts.skipped))
end

local exit = os.exit

function os.exit(...) -- luacheck: ignore
  report()
  return exit(...)
end

local function text_of(e)
  if type(e) == "table" and e.abort then return ("the evaluator gave up: %s at %s"):format(e.abort, tostring(e.where)) end
  local meta = debug.getmetatable(e)
  if e == nil then return nil end
  if type(e) == "string" or type(e) == "number" or meta and meta.__tostring then return tostring(e) end
  return "(error object is not a string)"
end

local script = arg[1]
local chunk, wrong
if script == "-e" then
  chunk, wrong = loadstring(arg[2], "=(command line)")
else
  chunk, wrong = loadfile(script)
end
if not chunk then
  io.stderr:write("luajit: ", wrong, "\n")
  exit(1)
end
local given = {}
for i, v in pairs(arg) do given[i < 0 and i or i - 1] = v end
given[-1] = arg[-1]
_G.arg = given -- luacheck: ignore
local ok, err = xpcall(function() return call(chunk, unpack(given)) end, text_of)
report()
if not ok then
  if err then io.stderr:write("luajit: ", err, "\n") end
  exit(1)
end
