--- help.lua -- `ty.help`: what functions are for, from the texts that stand beside them.
-- In: a name, such as "softmax", "nn.Linear", "data.Loader.epoch", "jit.compile", or a function. Out: the help as text:
-- the call, then what it does; of a group ("nn", "jit") the calls in it. Without an argument all groups and names are
-- printed. A name that is not known raises and names one that is near it.
--
-- 1. Functions of the module and methods are described where they are defined (`define`, ops.h).
-- 2. Those of the groups below have comments, three dashes, which are their help. A comment that begins with the call,
--    `nn.Linear(inputs, outputs, {bias = true}): ...`, is that name's; any other is the function's under it, and the
--    call is read off the function's first line. Lines of annotations (`---@`) are left out.
-- 3. The comments are read from the sources when they are asked for. Where these cannot be read, names are known still.
-- 4. Names that begin with _ are no help's business.

local ty = require "tycho"

local internals = ty.internals
local fail, nearest, help = internals.error, internals.nearest, internals.help
local getinfo = type(debug) == "table" and debug.getinfo

--- What the groups hold: for nn the classes and functions in ty.nn, for plot the methods of plots.
local groups = {
  nn = function() return ty.nn end,
  optim = function() return ty.optim end,
  data = function() return ty.data end,
  csv = function() return ty.csv end,
  image = function() return ty.image end,
  files = function() return ty.files end,
  linalg = function() return ty.linalg end,
  plot = function() return getmetatable(ty.plot {}) end,
  progress = function() return getmetatable(ty.progress()) end,
  graph = function() return ty.internals.load "tycho.graph" end,
}

------------------------------------------------------------------------------------------------------ the comments

local sources = {} -- by path, what its comments say: named[name], above[line] = {arguments, text, is it a method}

--- Notes a comment that ends before a line of code.
local function note(comments, lines, number, code)
  local name, rest = lines[1]:match "^(%l+%.[%w_.:]+)([({].*)$"
  local whole = name and table.concat({ rest, unpack(lines, 2) }, "\n")
  local call = whole and (whole:match "^%b()" or whole:match "^%b{}")
  if call then
    comments.named[name:gsub(":", ".")] = { call:gsub("%s*\n%s*", " "), whole:sub(#call + 1):match "^[.:]?%s*(.*)$" }
    return
  end
  local method = code:find "function [%w_.]+:"
  comments.above[number] = { code:match "%b()" or "(...)", table.concat(lines, "\n"), method }
end

--- The comments of a file, nil where it cannot be read.
local function comments_of(path)
  if sources[path] then return sources[path] end
  local file = io and io.open(path, "r")
  if not file then return nil end
  local comments, lines, number, annotated = { named = {}, above = {} }, {}, 0, false
  for line in file:lines() do
    number = number + 1
    local text = line:match "^%s*%-%-%- ?([^-].*)$"
    if not text then
      if #lines > 0 then note(comments, lines, number, line) end
      lines, annotated = {}, false
    elseif annotated or text:sub(1, 1) == "@" then
      annotated = true -- they come last, and go on in further lines
    else
      lines[#lines + 1] = text
    end
  end
  file:close()
  sources[path] = comments
  return comments
end

--- The comments of the file that a function stands in, and its line there.
local function comments_at(f)
  local info = type(f) == "function" and getinfo and getinfo(f, "S")
  local path = info and info.what ~= "C" and info.source:match "^@(.*)$"
  if path then return comments_of(path), info.linedefined end
end

---------------------------------------------------------------------------------------------------------- the names

local function is_callable(v) return type(v) == "function" or (getmetatable(v) or {}).__call ~= nil end

--- Puts the functions and classes of a table, and of tables in it, into `found` by name.
local function collect(prefix, t, found, seen)
  seen[t] = true
  for k, v in pairs(t) do
    local kind = type(v)
    if type(k) == "string" and k:sub(1, 1) ~= "_" and (kind == "function" or kind == "table") then
      local name = prefix .. "." .. k
      if is_callable(v) then found[name] = v end
      if kind == "table" and k ~= "parent" and not seen[v] and not groups[k] then collect(name, v, found, seen) end
    end
  end
end

--- The functions of a group by name, with their help, false where no source of theirs can be read; and the functions.
local function entries(group)
  local ok, t = ty.internals.protect(groups[group])
  local found, named, readable, y = {}, {}, false, {}
  collect(group, ok and t or {}, found, {})
  for _, f in pairs(found) do
    local comments = comments_at(f)
    for name, entry in pairs(comments and comments.named or {}) do named[name] = entry end
    readable = readable or comments ~= nil
  end
  for name, f in pairs(found) do
    local comments, line = comments_at(f)
    local entry = named[name] or comments and comments.above[line]
    local shown = entry and entry[3] and name:gsub("%.([^.]*)$", ":%1") or name
    if entry then entry = ("%s%s\n  %s"):format(shown, entry[1], (entry[2]:gsub("\n", "\n  "))) end
    y[name] = help[name] or entry
    if y[name] == nil and not readable then y[name] = false end
  end
  return y, found
end

local function sorted(t)
  local list = {}
  for k in pairs(t) do list[#list + 1] = k end
  table.sort(list)
  return list
end

--- A group: its own help if it is a function too, then the calls in it.
local function overview(group)
  local of, lines = entries(group), { help[group] }
  for _, name in ipairs(sorted(of)) do
    if of[name] then lines[#lines + 1] = of[name]:match "^[^\n]*" end
  end
  return table.concat(lines, "\n")
end

------------------------------------------------------------------------------------------------------ what is asked

local function last_of(name) return name:match "[^.]*$" end

--- Raises for a name that nobody has: which may have been meant.
local function unknown(name)
  local all, by_last = {}, {}
  for known in pairs(help) do all[known] = true end
  for group in pairs(groups) do
    all[group] = true
    for known in pairs(entries(group)) do all[known] = true end
  end
  for known in pairs(all) do
    local last = last_of(known)
    if not by_last[last] or known < by_last[last] then by_last[last] = known end
  end
  local near = by_last[name] or nearest(name, all) or by_last[nearest(last_of(name), by_last)]
  fail(("help: no function %q%s"):format(name, near and (", did you mean %q?"):format(near) or ""))
end

--- The help of the functions that compile and look at what was compiled, by name: those of the module that LuaJIT's own
--- table has, too, and those that this one alone has.
local function jit_help()
  local y, jit_table = {}, rawget(_G, "jit")
  for name, text in pairs(help) do
    local own = name:match "^jit%.(.*)$"
    local f = type(jit_table) == "table" and rawget(jit_table, own or name)
    if own then y[own] = text
    elseif f ~= nil and f == rawget(ty, name) then y[name] = "jit." .. text end
  end
  return y
end

--- The name under which a function or class is known, nil: it is none of the library's.
local function name_of(f)
  for name in pairs(help) do
    if rawget(ty, name) == f or internals.methods[name] == f then return name end
  end
  for group, open in pairs(groups) do
    local ok, t = internals.protect(open)
    local found = {}
    collect(group, ok and t or {}, found, {})
    for name, value in pairs(found) do
      if value == f then return name end
    end
    if ok and t == f then return group end
  end
end

--- The help of a name or of what stands under it.
---@param asked any
---@return string
local function text_of(asked)
  if type(asked) == "function" or type(asked) == "table" then
    local name = name_of(asked)
    if not name then fail("help: that is no function of the library") end
    return text_of(name)
  end
  if type(asked) ~= "string" then fail("help: argument 1 must be a name or a function, got " .. type(asked)) end
  local key = asked:gsub(":", "."):gsub("%.%*$", ""):gsub("^ty%.", ""):gsub("^[Tt]ensor%.", "")
  if key == "jit" then
    local lines = {}
    local of = jit_help()
    for _, name in ipairs(sorted(of)) do lines[#lines + 1] = of[name]:match "^[^\n]*" end
    return table.concat(lines, "\n")
  end
  if groups[key] then return overview(key) end
  if help[key] then return help[key] end
  local of_jit = key:match "^jit%.([%w_]+)$"
  if of_jit and jit_help()[of_jit] then return jit_help()[of_jit] end
  local group = key:match "^[^.]*"
  local text = groups[group] and entries(group)[key]
  if text == false then return asked .. "\n  its help stands in the sources, which cannot be read here" end
  return text or unknown(key)
end
internals.help_text = text_of

-- For what is made of it (editors/make_meta.lua).
internals.help_groups, internals.help_entries, internals.help_jit = groups, entries, jit_help

--- Words in lines of at most `width` letters.
local function wrapped(words, width)
  local lines, line = {}, " "
  for _, word in ipairs(words) do
    if #line + #word + 1 > width then
      lines[#lines + 1] = line
      line = " "
    end
    line = line .. " " .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

--- All names: functions of the module and methods of tensors, then the groups.
local function everything()
  local names = {}
  for _, name in ipairs(sorted(help)) do
    local in_place = name:sub(-1) == "_" and help[name:sub(1, -2)]
    if not in_place and not name:find(".", 1, true) then names[#names + 1] = name end
  end
  local parts = {
    "functions of ty, most of them methods of tensors, too; with _ at the end many write to their first argument",
    wrapped(names, 100), "jit", wrapped(sorted(jit_help()), 100),
  }
  for _, group in ipairs(sorted(groups)) do
    local of_group = {}
    for name in pairs(entries(group)) do
      if not name:find("%..*%.") then of_group[#of_group + 1] = name:sub(#group + 2) end
    end
    table.sort(of_group)
    parts[#parts + 1] = group
    parts[#parts + 1] = wrapped(of_group, 100)
  end
  parts[#parts + 1] = 'ty.help "softmax", ty.help(ty.softmax), ty.help "nn.Linear" explain one, ty.help "nn" a group'
  return table.concat(parts, "\n")
end

--- The list of all names, which shows nothing at the prompt: it has been printed.
local printed = { __tostring = function() return "" end }

--- The help of a function as text; of a group the calls in it. Without an argument all names are printed; a list of
--- them is given, groups as "nn.*".
---@param asked? string|function "softmax", "nn.Linear", "nn", "jit", ty.softmax
---@return string|string[]
return function(asked)
  if asked ~= nil then return text_of(asked) end
  io.write(everything(), "\n")
  local list = sorted(help)
  for group in pairs(groups) do list[#list + 1] = group .. ".*" end
  table.sort(list)
  return setmetatable(list, printed)
end
