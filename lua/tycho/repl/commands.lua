--- repl/commands.lua -- what is no Lua at the prompt: `?name`, `??name`, `%time`, `$ shell` ...
-- In: a line. Out: whether it was a command, which then has run. A command that is not known names the nearest.

local ty = require "tycho"
local problems = require "tycho.repl.problems"
local values = require "tycho.repl.values"

local M = {}

--- name -> { arguments, what it does, fn(repl, rest of the line) }
local COMMANDS = {}

local function command(name, arguments, about, fn) COMMANDS[name] = { arguments, about, fn } end

local function bytes_text(n)
  local units, i = { "B", "KB", "MB", "GB", "TB" }, 1
  while n >= 1000 and i < #units do n, i = n / 1000, i + 1 end
  return (i == 1 and "%d %s" or "%.3g %s"):format(n, units[i])
end

local function seconds_text(s)
  if s < 1e-3 then return ("%.3g us"):format(s * 1e6) end
  if s < 1 then return ("%.3g ms"):format(s * 1e3) end
  return ("%.3g s"):format(s)
end
M.seconds_text = seconds_text

--- The library's help of a name or a function; raises where it has none.
function M.help(asked)
  ty.internals.load "tycho.help"
  return ty.internals.help_text(asked)
end

------------------------------------------------------------------------------------------------------------------ time

--- Plans and kernels that were compiled so far, and the seconds that this took.
local function compiled()
  local stats = ty.stats()
  return stats.plans.misses, stats.kernels.misses, stats.making
end

--- Calls fn() and gives the seconds that captures took in it, and plans of what ran eagerly; then what fn gives.
local function with_captures(fn)
  local internals = ty.internals
  local clock, before, spent, depth = internals.clock, internals.span, 0, 0
  local _, _, made = compiled()
  internals.span = function(name)
    local ended, begin = before and before(name), clock()
    local _, _, at = compiled()
    depth = depth + 1
    return function()
      depth = depth - 1
      if depth == 0 then
        local _, _, now = compiled()
        spent, made = spent + clock() - begin, made + now - at -- a capture makes its plan itself
      end
      if ended then ended() end
    end
  end
  local function finish(...)
    internals.span = before
    local _, _, now = compiled()
    return spent + now - made, ...
  end
  return finish(fn())
end

local function counted(n, what) return ("%d %s%s"):format(n, what, n == 1 and "" or "s") end

command("time", "expr", "runs it and tells how long it took, compiling and running apart", function(repl, rest)
  local input, message = repl.session:compile(rest)
  if not input then return repl:warn(problems.syntax(repl.session, message, repl.colors)) end
  local plans, kernels = compiled()
  local begin, whole = ty.internals.clock(), nil
  local function finish(compiling, ok, ...)
    if not ok then return end
    local more_plans, more_kernels = compiled()
    local text = seconds_text(whole)
    local made = ("%s, %s"):format(counted(more_plans - plans, "plan"), counted(more_kernels - kernels, "kernel"))
    if more_plans > plans or compiling > 0 then
      text = ("%s: %s compiling (%s), %s running"):format(text, seconds_text(compiling), made,
        seconds_text(whole - compiling))
    end
    if input.expression then repl:show(input, ...) end
    repl:write(values.paint("dim", text, repl.colors))
  end
  finish(with_captures(function()
    local function timed(...)
      whole = ty.internals.clock() - begin
      return ...
    end
    return timed(repl:run(input, input.fn))
  end))
end)

command("timeit", "expr", "runs it again and again: the median and the least time of a run", function(repl, rest)
  local input, message = repl.session:compile(rest)
  if not input then return repl:warn(problems.syntax(repl.session, message, repl.colors)) end
  local clock, fn = ty.internals.clock, input.fn
  local ok, times, each = repl:run(input, function()
    local begin = clock()
    fn() -- the first one compiles
    local n = math.max(1, math.floor(2e-3 / math.max(clock() - begin, 1e-7)))
    local list, ends = {}, clock() + 0.5
    repeat
      local from = clock()
      for _ = 1, n do fn() end
      list[#list + 1] = (clock() - from) / n
    until clock() > ends or #list >= 200
    table.sort(list)
    return list, n
  end)
  if not ok then return end
  repl:write(values.paint("dim", ("%s median, %s least of %d runs"):format(seconds_text(times[math.ceil(#times / 2)]),
    seconds_text(times[1]), #times * each), repl.colors))
end)

------------------------------------------------------------------------------------------------------------------- who

local BYTES = {}
for _, d in ipairs(ty.internals.probe.dtypes()) do BYTES[d.name] = d.bytes end

local function bytes_of(x) return x:numel() * BYTES[x.dtype] end

--- What a value is, its bytes (of tensors in it, too), its device.
local function describe(v)
  if ty.is_tensor(v) then
    local ok, text = pcall(values.tensor, v)
    if not ok then return "tensor that was released", 0, "" end
    return text, bytes_of(v), v.device
  end
  if type(v) == "table" then
    local bytes, device, seen, count = 0, "", {}, 0
    local function visit(t, depth)
      if seen[t] or depth > 12 or count > 1e5 then return end
      seen[t] = true
      for _, x in next, t do
        count = count + 1
        if ty.is_tensor(x) then
          local ok, n = pcall(bytes_of, x)
          if ok and not seen[x] then bytes, device = bytes + n, x.device end
          seen[x] = true
        elseif type(x) == "table" then
          visit(x, depth + 1)
        end
      end
    end
    visit(v, 1)
    local meta = debug.getmetatable(v)
    local name = type(meta) == "table" and (rawget(meta, "class_name") or rawget(meta, "__name")) or "table"
    return tostring(name), bytes, device
  end
  if type(v) == "string" then return ("string of %d bytes"):format(#v), #v, "" end
  return type(v), 0, ""
end

command("who", "", "names of this session, the largest tensors first, with bytes and devices", function(repl)
  local rows = {}
  local function add(name, v)
    local what, bytes, device = describe(v)
    if type(v) == "number" or type(v) == "boolean" then what = ("%s %s"):format(what, tostring(v)) end
    if type(v) == "function" then
      local fn = ty.internals.original(v)
      what = (fn and "compiled " or "") .. "function " .. values.place(fn or v)
    end
    rows[#rows + 1] = { name, what, bytes, device }
  end
  repl.session:each(function(name, v) add(name, v) end)
  for name, v in pairs(_G) do
    if type(name) == "string" and not repl.known[name] and name ~= "_" then add(name, v) end
  end
  table.sort(rows, function(a, b)
    if a[3] ~= b[3] then return a[3] > b[3] end
    return a[1] < b[1]
  end)
  local widths = { 0, 0 }
  for _, r in ipairs(rows) do
    for i = 1, 2 do widths[i] = math.max(widths[i], #r[i]) end
  end
  for _, r in ipairs(rows) do
    local size = r[3] > 0 and bytes_text(r[3]) or ""
    local name, what = r[1] .. (" "):rep(widths[1] - #r[1]), r[2] .. (" "):rep(widths[2] - #r[2])
    local line = ("%s  %s  %10s  %s"):format(name, what, size, r[4])
    repl:write((line:gsub("%s+$", "")))
  end
  local memory = ty.stats().memory
  if memory then
    repl:write(values.paint("dim", ("%d tensors, %s in use, %s at most"):format(memory.tensors, bytes_text(memory.used),
      bytes_text(memory.peak)), repl.colors))
  end
end)

-------------------------------------------------------------------------------------------------------------- files

--- Runs a file as a script: its globals stay.
local function run_file(repl, path, ...)
  local chunk, message = loadfile(path)
  if not chunk then return repl:warn(values.paint("error", message, repl.colors)) end
  repl:run({ fn = chunk, locals = {} }, chunk, ...)
end

local function words_of(text)
  local list = {}
  for word in text:gmatch "%S+" do list[#list + 1] = word end
  return list
end

command("run", "file args ...", "runs a file; its globals stay", function(repl, rest)
  local words = words_of(rest)
  if not words[1] then return repl:warn "%run takes the name of a file" end
  run_file(repl, unpack(words))
end)

command("edit", "file", "the editor ($VISUAL, $EDITOR) on a file, or on the last input, which is run afterwards",
  function(repl, rest)
    local editor = os.getenv "VISUAL" or os.getenv "EDITOR" or "vi"
    local path = rest:match "^%s*(.-)%s*$"
    if path ~= "" then
      os.execute(("%s '%s'"):format(editor, path:gsub("'", "'\\''")))
      return run_file(repl, path)
    end
    local name = os.tmpname()
    local file = assert(io.open(name, "w"))
    file:write(repl.session.texts[("input[%d]"):format(repl.session.count)] or "", "\n")
    file:close()
    os.execute(("%s '%s'"):format(editor, name))
    local edited = assert(io.open(name, "r"))
    local text = edited:read("*a"):gsub("%s+$", "")
    edited:close()
    os.remove(name)
    if text ~= "" then
      repl:write(values.paint("dim", text, repl.colors))
      repl:evaluate(text)
    end
  end)

command("help", "", "this list", function(repl)
  local rows = {}
  for name, c in pairs(COMMANDS) do
    rows[#rows + 1] = { ("%%%s %s"):format(name, c[1]), c[2] }
  end
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  for _, row in ipairs {
    { "?name", "the help of a function: ?ty.softmax, ?nn.Linear; of one of yours its place and comment" },
    { "??name", "how a compiled function was compiled: parts, guards, kernels; else the source" },
    { "$ command", "runs it in the shell" },
    { "expr", "shows its values and holds the first one as _ and _N; a ; at the end keeps quiet" },
    { "exit", "leaves, as Ctrl-D does" },
    { "keys", "TAB completes, Ctrl-R searches what was typed, Ctrl-C stops, Ctrl-D leaves" },
  } do
    rows[#rows + 1] = row
  end
  for _, row in ipairs(rows) do
    repl:write(("  %-18s %s"):format(row[1], row[2]))
  end
end)

-------------------------------------------------------------------------------------------------------------- ? and ??

--- What an expression after `?` gives, where it is a path of names.
local function value_of(repl, text)
  if not text:find "^[%a_][%w_.:]*$" then return nil end
  return problems.resolve(repl.session, text)
end

--- The lines of a Lua function's source, with the comment above it.
local function source_of(repl, fn)
  local info = debug.getinfo(fn, "S")
  if info.what == "C" then return nil end
  local lines, first = {}, info.linedefined
  while first > 1 do
    local text = problems.line_of(repl.session, info.source, first - 1)
    if not text or not text:find "^%s*%-%-" then break end
    first = first - 1
  end
  for n = first, math.min(info.lastlinedefined, first + 60) do
    lines[#lines + 1] = problems.line_of(repl.session, info.source, n)
  end
  if #lines == 0 then return nil end
  return table.concat(lines, "\n")
end

local function is_compiled(v)
  if type(v) ~= "function" and type(v) ~= "table" then return false end
  return (pcall(ty.explain, v))
end

local function about(repl, text, deep)
  local v = value_of(repl, text)
  if deep and v ~= nil and is_compiled(v) then
    local e = ty.explain(v)
    return repl:write(e.full and e:full() or tostring(e))
  end
  for _, asked in ipairs { text, v } do
    local ok, help = pcall(M.help, asked)
    if ok and help and not deep then return repl:write(help) end
  end
  if type(v) == "function" then
    repl:write(values.show(v, { colors = repl.colors }))
    local code = source_of(repl, values.written(v))
    if code then repl:write(code) end
  elseif v ~= nil then
    repl:write(values.show(v, { colors = repl.colors, width = repl:width() }))
  else
    local _, message = pcall(M.help, text)
    repl:warn(values.paint("error", tostring(message):gsub("^[^:]*:%d+: ", ""), repl.colors))
  end
end

----------------------------------------------------------------------------------------------------------------- which

--- Whether a text is none of Lua's.
---@param text string
function M.is_command(text) return text:find "^%s*[?%%$!]" ~= nil end

local LEAVE = { exit = true, quit = true }

--- Runs a command; false: the text is none.
---@param repl tycho.Repl
---@param text string
---@return boolean
function M.run(repl, text)
  local mark, rest = text:match "^%s*([?%%$!])(.*)$"
  if not mark then
    local word = text:match "^%s*(%a+)%s*%(?%s*%)?%s*$" -- as elsewhere
    if word and rawget(_G, word) == nil and not repl.session:get(word) then
      repl.left = LEAVE[word]
      if repl.left then return true end
      if word == "help" then
        COMMANDS.help[3](repl)
        return true
      end
    end
    local asked = text:match "^%s*([%a_][%w_.:]*)%?%s*$" -- as IPython has it, too
    if not asked then return false end
    mark, rest = "?", asked
  end
  if mark == "$" or mark == "!" then
    io.flush()
    os.execute(rest)
    return true
  end
  if mark == "?" then
    local deep = rest:sub(1, 1) == "?"
    local name = rest:gsub("^%?", ""):match "^%s*(.-)%s*$"
    repl:run(nil, function()
      if name == "" then COMMANDS.help[3](repl)
      else about(repl, name, deep) end
    end)
    return true
  end
  local name, arguments = rest:match "^(%w*)%s*(.*)$"
  local found = COMMANDS[name]
  if not found then
    local near = ty.internals.nearest(name, COMMANDS)
    local meant = near and (", did you mean %%%s?"):format(near) or ": %help lists them"
    repl:warn(("no command %%%s%s"):format(name, meant))
    return true
  end
  found[3](repl, arguments)
  return true
end

--- The names of commands, for completion.
function M.names()
  local list = {}
  for name in pairs(COMMANDS) do list[#list + 1] = name end
  table.sort(list)
  return list
end

return M
