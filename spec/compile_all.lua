--- compile_all.lua -- runs a whole Lua program with each of its functions compiled, and captured in parts.
-- In: luajit spec/compile_all.lua MODE SEED TIMES script.lua args... MODE is "plain" (nothing is compiled), "parts"
-- (functions are cut where evaluation cannot go on), or a number: of so many instructions one is, by chance, one where
-- evaluation gives up, so that functions are cut anywhere; every second function is compiled, by chance, and the main
-- chunk where SEED is a multiple of 4. Out: what the script does, TIMES times in the same process; with COUNT=1 in the
-- environment one line on stderr that counts. SOFT=1: programs go on where an assertion fails.
--
-- `function ... end` becomes `__c(function ... end)` in the source; lines and names stay. What is loaded from texts, too.
-- The text is changed in the same way in mode "plain", so that both runs differ in what __c does alone.

local mode, seed, times = arg[1], tonumber(arg[2]), tonumber(arg[3])
local script = arg[4]
local unpack, select, type, tostring, find, sub, match = unpack, select, type, tostring, string.find, string.sub, string.match
local byte = string.byte

-- Source ---------------------------------------------------------------------------------------------------------------

--- The tokens of a text: {from, to, text of names and signs, or nil}.
local function tokens_of(s)
  local list, at = {}, 1
  if sub(s, 1, 1) == "#" then at = find(s, "\n", 1, true) or #s + 1 end
  while true do
    at = find(s, "%S", at)
    if not at then return list end
    local level = match(s, "^%-%-%[(=*)%[", at)
    local long = match(s, "^%[(=*)%[", at)
    local c = sub(s, at, at)
    local to, text
    if level then
      to = select(2, find(s, "]" .. level .. "]", at, true)) or #s
    elseif sub(s, at, at + 1) == "--" then
      to = (find(s, "\n", at, true) or #s + 1) - 1
    elseif long then
      to, text = select(2, find(s, "]" .. long .. "]", at, true)) or #s, "string"
    elseif c == '"' or c == "'" then
      to = at + 1
      while to <= #s and sub(s, to, to) ~= c do
        to = to + (byte(s, to) == 92 and 2 or 1)
      end
      text = "string"
    elseif find(c, "[%a_\128-\255]") then
      to = select(2, find(s, "^[%w_\128-\255]+", at))
      text = sub(s, at, to)
    elseif find(s, "^%.?%d", at) then
      to = select(2, find(s, "^0[xX][%x.pP]*", at)) or select(2, find(s, "^[%d.]+", at))
      if find(s, "^[eE][+-]?%d+", to + 1) then to = select(2, find(s, "^[eE][+-]?%d+", to + 1)) end
      to = select(2, find(s, "^[%w_]*", to + 1)) or to
      text = "number"
    elseif find(s, "^%.%.", at) then
      to = select(2, find(s, "^%.+", at))
      text = sub(s, at, to)
    else
      to, text = at, c
    end
    if text then list[#list + 1] = { at, to, text } end
    at = to + 1
  end
end

local opens = { ["function"] = true, ["do"] = true, ["if"] = true, ["repeat"] = true }

--- The text with each function handed to __c; nil where it is not understood.
local function changed(s)
  local list, edits, stack = tokens_of(s), {}, {}
  local function edit(at, text, from) edits[#edits + 1] = { at, text, from } end -- text in place of at .. from - 1
  for i, t in ipairs(list) do
    local word, before, behind = t[3], list[i - 1] and list[i - 1][3], list[i + 1]
    local field = before == "." or before == ":"
    if not field and opens[word] then
      local entry = { word }
      if word == "function" then
        if not behind then return nil end
        if behind[3] == "(" then
          edit(t[1], "__c(function", t[2] + 1)
          entry.ends = "end)"
        elseif before == "local" then
          local name = behind[3]
          edit(list[i - 1][1], "local " .. name .. "; " .. name .. " = __c(function", behind[2] + 1)
          entry.ends = "end);"
        else
          local k = i + 1
          while list[k] and list[k][3] ~= "(" do k = k + 1 end
          if not list[k] then return nil end
          local path = sub(s, behind[1], list[k - 1][2])
          if find(path, "[^%w_.: \128-\255]") then return nil end
          local is_method = find(path, ":", 1, true)
          edit(t[1], path:gsub(":", ".") .. " = __c(function(" ..
            (is_method and (list[k + 1][3] == ")" and "self" or "self, ") or ""), list[k][2] + 1)
          entry.ends = "end);"
        end
      end
      stack[#stack + 1] = entry
    elseif not field and word == "end" then
      local entry = table.remove(stack)
      if not entry then return nil end
      if entry.ends then edit(t[1], entry.ends, t[2] + 1) end
    elseif not field and word == "until" then
      if not table.remove(stack) then return nil end
    end
  end
  if #stack > 0 then return nil end
  local out, at = {}, 1
  for _, e in ipairs(edits) do
    out[#out + 1] = sub(s, at, e[1] - 1)
    out[#out + 1] = e[2]
    at = e[3]
  end
  out[#out + 1] = sub(s, at)
  return "local __c = debug.getregistry().__c; " .. table.concat(out):gsub("^#[^\n]*", "")
end

-- Compilation ------------------------------------------------------------------------------------------------------------

local counts = { functions = 0, forced = 0 }
local registry = debug.getregistry()

--- The function that stands for another.
local made_of = setmetatable({}, { __mode = "k" })

local compile = function(f) return f end
local ty, all

local floor, state = math.floor, seed * 16807 % 2147483647 + 1

--- True once in n times, by chance.
local function is_chosen(n)
  state = state * 16807 % 2147483647
  return floor(state / 1024) % n == 0
end

if mode ~= "plain" then
  ty = require "tycho"
  require("tycho.capture.parts").FEW = 0
  ty.compile(function() end) -- loads the rest, before the program changes the library's functions
  local every = tonumber(mode)
  if every then
    local handlers = require("tycho.capture.evaluate").handlers
    local abort = require("tycho.capture").World.abort
    local breaks = setmetatable({}, { __mode = "k" })
    for name, run in pairs(handlers) do
      handlers[name] = function(i, R, S, frame, world)
        local leads_in = name == "JMP" or name == "VARG" and frame.at == 1 -- what goes on in a function's middle does so
        if world.abort == abort and not frame.proto.own and not leads_in then
          local is = breaks[i]
          if is == nil then
            is = is_chosen(every)
            breaks[i] = is
          end
          if is then
            counts.forced = counts.forced + 1
            world:abort("it is cut by chance", nil, name:find "^CALL" and "unknown" or nil)
          end
        end
        return run(i, R, S, frame, world)
      end
    end
  end
  all = {}
  compile = function(f)
    if not is_chosen(2) then return f end
    counts.functions = counts.functions + 1
    local g = ty.compile(f)
    if #all < 20000 then all[#all + 1] = g end
    made_of[g] = f
    return g
  end
  ty.disable(compile)
end
registry.__c = compile

--- Library functions that look at a function are shown what it is made of; what gives the function gives it as it was.
local function shown(t, name)
  local real = t[name]
  t[name] = function(f, ...)
    local g = made_of[f]
    if name == "setfenv" and type(f) == "number" and f > 0 then
      real(f + 1, ...) -- which function runs there is not compared: one that goes on in another's middle may
      return nil
    end
    if not g then return real(f, ...) end
    if name == "setfenv" then
      real(g, ...)
      return f
    end
    return real(g, ...)
  end
end
for _, name in ipairs { "getfenv", "setfenv", "getupvalue", "setupvalue", "upvalueid", "getinfo" } do shown(debug, name) end
for _, name in ipairs { "getfenv", "setfenv" } do shown(_G, name) end
shown(string, "dump")

local real_loadstring, exit = loadstring, os.exit

local function load_text(s, name)
  local text = type(s) == "string" and sub(s, 1, 1) ~= "\27" and changed(s)
  local f = text and real_loadstring(text, name or s)
  if f then return f end
  return real_loadstring(s, name or s)
end
function _G.loadstring(s, name) -- luacheck: ignore
  if type(s) ~= "string" then return real_loadstring(s, name) end
  return load_text(s, name)
end

local function read(file)
  local f, why = io.open(file, "rb")
  if not f then return nil, why end
  local s = f:read "*a"
  f:close()
  return s
end

local function load_file(file)
  local s, why = read(file)
  if not s then return nil, "cannot open " .. file, why end
  return load_text(s, "@" .. file)
end
function _G.loadfile(file) return load_file(file) end -- luacheck: ignore
function _G.dofile(file) return assert(load_file(file))() end -- luacheck: ignore

-- The script -------------------------------------------------------------------------------------------------------------

local function report()
  io.stdout:flush()
  if not (os.getenv "COUNT" and ty) then return end
  local cut, parts, skips, captures, aborts = 0, 0, 0, 0, {}
  for _, g in ipairs(all) do
    local e = ty.explain(g)
    if #e.parts > 0 then cut, parts = cut + 1, parts + #e.parts end
    skips, captures = skips + e.skips, captures + e.captures
    for _, why in ipairs(e.aborts) do aborts[why.text] = (aborts[why.text] or 0) + 1 end
  end
  io.stderr:write(("compiled %d functions, %d in %d parts; %d captures, %d calls answered; %d cuts forced\n"):format(counts.functions,
    cut, parts, captures, skips, counts.forced))
  if os.getenv "COUNT" == "2" then
    for text, n in pairs(aborts) do io.stderr:write(n, " ", text, "\n") end
  end
end

function os.exit(...) -- luacheck: ignore
  report()
  return exit(...)
end

--- SOFT=1: where an assertion fails, for another host than the program's perhaps, it goes on.
if os.getenv "SOFT" then
  function _G.assert(ok, ...) -- luacheck: ignore
    if ok then return ok, ... end
    print(debug.traceback(tostring((...) or "assertion failed"), 2):match "^[^\n]*\n[^\n]*\n[^\n]*")
    return ok, ...
  end
end

local chunk, wrong = load_file(script)
if not chunk then
  io.stderr:write(tostring(wrong), "\n")
  exit(1)
end
local given = {}
for i, v in pairs(arg) do given[i - 4] = v end
_G.arg = given -- luacheck: ignore
if seed % 4 == 0 then chunk = compile(chunk) end
math.randomseed(7)
for _ = 1, times do
  local ok, err = xpcall(function() return chunk(unpack(given)) end, function(e)
    return type(e) == "string" and debug.traceback(e) or tostring(e)
  end)
  if not ok then print("raises", (tostring(err):gsub("%[C%]: in function 'xpcall'.*", ""))) end
end
report()
