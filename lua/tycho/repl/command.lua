--- repl/command.lua -- the command `tycho`: what its arguments mean.
-- In: the arguments as `arg`. Out: what they ask for is run; the process ends with 1 where it failed. Scripts run as
-- `luajit script args` runs them; at the prompt, for -e, -l and standard input, `ty` is there.

local USAGE = [=[
usage: tycho [options] [script [arguments]]
  tycho                  a prompt, if standard input is a terminal; else runs standard input
  tycho script args      runs a script
  -e code                runs code            -l name   requires a library
  -i                     a prompt afterwards  -q        without the line of greeting
  -j cmd, -O level       options of LuaJIT    -b ...    LuaJIT's bytecode compiler
  --ranks n              runs all that follows in n processes, which ty.dist joins: their output line by line behind
                         [rank]; with -q that of the first one alone; with --restart k a run that fails begins
                         anew with one process less, up to k times
  --onnx file            inputs, outputs, operators and parameters of an ONNX model
  -                      runs standard input  --        no options follow
  -h, --help             this text            -v, --version
At the prompt: %help lists its commands, ?name explains a function.]=]

local arguments = { ... }
if #arguments == 0 then arguments = { unpack(arg or {}) } end

--- The file's own directory, from which the library is loaded where nothing else leads to it.
local function find_library()
  local here = debug.getinfo(1, "S").source:match "^@(.*)repl[/\\]command%.lua$"
  if not here then return end
  local root = here:gsub("tycho/$", "")
  package.path = ("%s?.lua;%s?/init.lua;%s"):format(root, root, package.path)
end

local function die(message)
  io.stderr:write("tycho: ", message, "\n")
  os.exit(1)
end

--- Those of --ranks, in front of what is run.
local function ranks_options(o)
  local rest = o.rest
  while rest[1] == "-q" or rest[1] == "--restart" do
    if table.remove(rest, 1) == "-q" then o.quiet = true else
      local k = tonumber(table.remove(rest, 1) or "")
      if not k or k < 0 or k % 1 ~= 0 then die "--restart takes a number of times" end
      o.restarts = k
    end
  end
  return o
end

--- Reads the options up to the script's name.
local function parse(list)
  local o, i = { actions = {} }, 1
  while list[i] do
    local word = list[i]
    local letter, value = word:match "^%-([el])(.*)$"
    if word == "--" then
      i = i + 1
      break
    elseif word == "-h" or word == "--help" then
      o.help = true
    elseif word == "-v" or word == "--version" then
      o.version = true
    elseif word == "-i" then
      o.stay = true
    elseif word == "-q" then
      o.quiet = true
    elseif word == "--ranks" then
      i = i + 1
      local n = tonumber(list[i] or "")
      if not n or n < 1 or n % 1 ~= 0 then
        die(("--ranks takes a number of processes, got %s"):format(list[i] or "nothing"))
      end
      o.ranks, o.rest = n, { unpack(list, i + 1) }
      return ranks_options(o)
    elseif word == "--onnx" then
      i = i + 1
      o.actions[#o.actions + 1] = { "onnx", list[i] or die "--onnx takes the path of a model" }
    elseif letter then
      if value == "" then
        i = i + 1
        value = list[i] or die(("-%s takes an argument"):format(letter))
      end
      o.actions[#o.actions + 1] = { letter, value }
    elseif word:sub(1, 1) == "-" and word ~= "-" then
      die(("no option %s; tycho --help lists them"):format(word))
    else
      break
    end
    i = i + 1
  end
  if list[i] then
    o.script = list[i]
    o.arguments = { unpack(list, i + 1) }
  end
  return o
end

--- A script's error as LuaJIT's own command shows it.
local function handler(message)
  if type(message) ~= "string" and not (getmetatable(message) or {}).__tostring then return message end
  return debug.traceback(require("tycho.repl.problems").located(tostring(message)), 2)
end

local function call(fn, ...)
  local ok, message = xpcall(fn, handler, ...)
  if ok then return true end
  io.stdout:flush()
  io.stderr:write("tycho: ", tostring(message), "\n")
  return false
end

local function run_chunk(chunk, message, ...)
  if not chunk then
    io.stderr:write("tycho: ", message, "\n")
    return false
  end
  return call(chunk, ...)
end

find_library()
local o = parse(arguments)

if o.help then
  print(USAGE)
  os.exit(0)
end
if o.ranks then
  if #o.rest == 0 then die "--ranks takes a script, or -e code, to run" end
  local words = { arg[-1] or "luajit", debug.getinfo(1, "S").source:sub(2), unpack(o.rest) }
  local ok, status = pcall(function()
    return require "tycho.dist.launch"(o.ranks, words, { only = o.quiet, restarts = o.restarts })
  end)
  if not ok then die(status) end
  os.exit(status, true)
end
local ty = require "tycho"
if o.version then
  local host = type(jit) == "table" and ("%s, %s"):format(jit.version, jit.arch) or _VERSION
  print(("tycho %s, %s"):format(ty.version or "of no version", host))
  os.exit(0)
end

local terminal = ty.internals.terminal
local interactive = o.stay or not o.script and #o.actions == 0 and terminal(0) ~= nil

local given = { [0] = o.script or "tycho", unpack(o.arguments or {}) }
rawset(_G, "arg", given)

local ok = true
if not o.script or o.stay or #o.actions > 0 then rawset(_G, "ty", ty) end
for _, action in ipairs(o.actions) do
  if action[1] == "l" then
    ok = ok and call(function()
      local name = action[2]
      local value = require(name)
      if rawget(_G, name) == nil and name:find "^[%a_][%w_]*$" then rawset(_G, name, value) end
    end)
  elseif action[1] == "onnx" then
    ok = ok and call(function()
      local model, message = ty.load(action[2])
      if not model then error(message, 0) end
      print(model)
    end)
  else
    ok = ok and run_chunk(loadstring(action[2], "=-e"))
  end
end
if ok and o.script then
  if o.script == "-" then ok = run_chunk(loadfile(nil), nil, unpack(given))
  else
    local chunk, message = loadfile(o.script)
    ok = run_chunk(chunk, message, unpack(given))
  end
elseif ok and not interactive and #o.actions == 0 then
  local chunk, message = loadstring(io.read "*a", "=stdin")
  ok = run_chunk(chunk, message)
end
if interactive then
  require "tycho.repl".start { quiet = o.quiet }
  ok = true
end
io.stdout:flush()
os.exit(ok and 0 or 1, true)
