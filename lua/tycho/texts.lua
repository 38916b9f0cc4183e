--- texts.lua -- what is said of every public function: the texts that stand beside it in the sources, as tables.
-- In: a public name, "softmax", "nn.Linear", "jit.view", "data.Loader.epoch". Out: an entry {name, call, summary, text,
-- params, returns, raises, source, see, ...}, of which ty.help makes its text and the reference its pages.
--
-- 1. A comment of three dashes above a function is its text. One that begins with the call,
--    `nn.Linear(inputs, outputs, {bias = true}): ...`, is that name's; any other is the function's under it.
-- 2. LuaLS annotations behind the text are the arguments and results; their descriptions tell shapes, units, defaults.
-- 3. What is written in C has its line in ops.h or beside the function, and all else in annotations.lua, which is read
--    as text like the rest and never run. Rows that work element by element have what follows from their columns.
-- 4. Sentences from "Raises" on, to the end of the paragraph, are the errors; "see ty.softmax" takes over what the
--    function there says of its result and errors.
-- 5. The comments are read when they are asked for. Where the sources cannot be read, there is the one line of help.

local ty = require "tycho"

local internals = ty.internals
local help = internals.help
local find, format, gsub, match, sub = string.find, string.format, string.gsub, string.match, string.sub
local gmatch = string.gmatch
local concat, sort = table.concat, table.sort
local getinfo = type(debug) == "table" and debug.getinfo

local M = {}

------------------------------------------------------------------------------------------------------ the comments

--- A type at the beginning of a text, and what stands behind it: "integer[]|nil sizes". Spaces within brackets and
--- behind the colon of a fun() belong to the type.
local function split_type(text)
  local depth, at = 0, 1
  while at <= #text do
    local c = sub(text, at, at)
    if find(c, "[%(%[{<]") then depth = depth + 1
    elseif find(c, "[%)%]}>]") then depth = depth - 1
    elseif c == " " and depth == 0 and not find(sub(text, 1, at - 1), "fun%b():?[^)]*[:,]$") then break end
    at = at + 1
  end
  return sub(text, 1, at - 1), (gsub(sub(text, at), "^ ", ""))
end

--- Reads "tycho.Tensor? x, string? message # sizes": several results, the last of which has the description.
local function read_returns(comment, text)
  repeat
    local kind, rest = split_type(text)
    local more = sub(kind, -1) == ","
    local name, behind = match(rest, "^([%a_]+)(.*)$")
    if not name and not more then name, behind = match(rest, "^(%.%.%.)(.*)$") end -- "any ...": several
    local named = name and (behind == "" or find(behind, "^,") or find(behind, "^%s*#") or find(behind, "^  "))
    local last = { type = gsub(kind, ",$", ""), name = named and name or nil, text = "" }
    comment.returns[#comment.returns + 1] = last
    comment.last = last
    if named then more, rest = find(behind, "^,") ~= nil, behind end
    text = match(rest, "^,?%s*(.*)$")
    if not more then last.text = match(text, "^#?%s*(.*)$") end
  until not more
end

--- Reads an annotation into params, returns or overloads; others (generic) are no business of a function's text.
local function annotate(comment, line)
  local tag, rest = match(line, "^@(%a+)%s*(.*)$")
  if tag == "param" then
    local name, optional, behind = match(rest, "^([%w_.]+)(%??)%s+(.*)$")
    if not name then return end
    local kind, text = split_type(behind)
    text = match(text, "^%s*#?%s*(.*)$")
    comment.params[#comment.params + 1] = { name = name, type = kind, optional = optional == "?", text = text }
    comment.last = comment.params[#comment.params]
  elseif tag == "return" then
    read_returns(comment, rest)
  else
    if tag == "overload" then comment.overloads[#comment.overloads + 1] = rest end
    comment.last = nil
  end
end

--- Lines whose annotations are whole: one with brackets that are open at its end goes on in the next.
local function joined(lines)
  local list, open = {}, false
  for _, line in ipairs(lines) do
    if open then list[#list] = list[#list] .. " " .. match(line, "^%s*(.*)$") else list[#list + 1] = line end
    local last = list[#list]
    open = sub(last, 1, 1) == "@" and select(2, gsub(last, "[%({]", "")) > select(2, gsub(last, "[%)}]", ""))
  end
  return list
end

--- A comment's lines as a table: text, params, returns, overloads.
local function read_comment(lines)
  local comment, text = { params = {}, returns = {}, overloads = {} }, {}
  local annotated = false
  for _, line in ipairs(lines) do
    if sub(line, 1, 1) == "@" then
      annotated = true
      annotate(comment, line)
    elseif annotated then -- an annotation's description goes on
      local last = comment.last
      if last then last.text = last.text .. (last.text == "" and "" or " ") .. match(line, "^%s*(.*)$") end
    else
      text[#text + 1] = line
    end
  end
  comment.text, comment.last = concat(text, "\n"), nil
  return comment
end

--- Files the classes that a comment declares, {name, parent, text, fields, own}; own: the local variable in the line of
--- code below, whose functions are the methods. Fields that begin with _ are no one else's.
local function file_classes(comments, lines, code)
  local class
  for _, line in ipairs(lines) do
    local name, rest = match(line, "^@class%s+([%w_.]+)%s*(.*)$")
    local field = match(line, "^@field%s+([^_].*)$")
    if name then
      local parent, behind = match(rest, "^:%s*([%w_.]+)%s*(.*)$")
      class = { name = name, parent = parent, text = behind or rest, fields = {} }
      class.own = match(code, "^%s*local ([%w_]+) =")
      comments.classes[#comments.classes + 1] = class
    elseif field and class then
      class.fields[#class.fields + 1] = field
    end
  end
end

--- Files a comment that ends before a line of code.
local function file_comment(comments, lines, number, code)
  lines = joined(lines)
  file_classes(comments, lines, code)
  local comment = read_comment(lines)
  local name, rest = match(comment.text, "^(%l+%.[%w_.:]+)([({].*)$")
  local call = name and (match(rest, "^%b()") or match(rest, "^%b{}"))
  if call then
    comment.call = gsub(call, "%s*\n%s*", " ")
    comment.text = match(sub(rest, #call + 1), "^[.:]?%s*(.*)$")
    comments.named[(gsub(name, ":", "."))] = comment
    return
  end
  comment.call = match(code, "%b()") or "(...)"
  comment.method = find(code, "function [%w_.]+:") ~= nil
  comment.declared = match(code, "^%s*function ([%w_.:]+)")
  comments.above[number] = comment
  if comment.declared then comments.declared[comment.declared] = comment end
end

local sources = {} -- by path, what its comments say

--- The comments of a file, {named, above = by line of code, declared = by name of function, classes, sections}, nil
--- where it cannot be read.
local function comments_of(path)
  if sources[path] then return sources[path] end
  local file = io and io.open(path, "r")
  if not file then return nil end
  local comments = { named = {}, above = {}, declared = {}, classes = {}, sections = {} }
  local lines, number, section = {}, 0, nil
  for line in file:lines() do
    number = number + 1
    local text = match(line, "^%s*%-%-%- ?([^-].*)$") or match(line, "^%s*%-%-%-$") and ""
    if text then
      lines[#lines + 1] = text
    else
      if #lines > 0 then file_comment(comments, lines, number, line) end
      lines = {}
      section = match(line, "^%-%-%-%-+ (.+)$") or section
      local declared = match(line, "^function ty%.([%w_.]+)")
      if declared then comments.sections[declared] = section end
    end
  end
  file:close()
  sources[path] = comments
  return comments
end
M.comments_of = comments_of

--- The comments of the file that a function stands in, and its line there.
local function comments_at(f)
  local info = type(f) == "function" and getinfo and getinfo(f, "S")
  local path = info and info.what ~= "C" and match(info.source, "^@(.*)$")
  if path then return comments_of(path), info.linedefined, path end
end
M.comments_at = comments_at

--- The comments of what is written in C.
local function annotations()
  local here = getinfo and match(getinfo(1, "S").source, "^@(.*)texts%.lua$")
  return here and comments_of(here .. "annotations.lua") or { named = {}, above = {}, declared = {}, sections = {} }
end

---------------------------------------------------------------------------------------------------------- the names

--- What the groups hold: for nn the classes and functions in ty.nn, for plot, progress and run (of jit.start) methods.
M.groups = {
  nn = function() return ty.nn end,
  optim = function() return ty.optim end,
  data = function() return ty.data end,
  csv = function() return ty.csv end,
  image = function() return ty.image end,
  files = function() return ty.files end,
  dist = function() return ty.dist end,
  linalg = function() return ty.linalg end,
  fft = function() return ty.fft end,
  plot = function() return getmetatable(ty.plot {}) end,
  progress = function() return getmetatable(ty.progress()) end,
  graph = function() return internals.load "tycho.graph" end,
  run = function() return getmetatable(ty.start(function() end)).__index end,
}

local function is_callable(v) return type(v) == "function" or (getmetatable(v) or {}).__call ~= nil end

--- Puts the functions and classes of a table, and of tables in it, into `found` by name.
local function collect(prefix, t, found, seen)
  seen[t] = true
  for k, v in pairs(t) do
    local kind = type(v)
    if type(k) == "string" and sub(k, 1, 1) ~= "_" and (kind == "function" or kind == "table") then
      local name = prefix .. "." .. k
      if is_callable(v) then found[name] = v end
      if kind == "table" and k ~= "parent" and not seen[v] and not M.groups[k] then collect(name, v, found, seen) end
    end
  end
end

local members = {}

--- The functions and classes of a group by name, {} where it cannot be loaded; and its table.
function M.members(group)
  if members[group] then return members[group].found, members[group].table end
  local ok, t = internals.protect(M.groups[group])
  local found = {}
  collect(group, ok and t or {}, found, {})
  local classes = ok and rawget(t, "_classes") or {} -- of what its functions make
  for class, methods in pairs(classes) do collect(group .. "." .. class, methods, found, {}) end
  if ok then members[group] = { found = found, table = t } end
  return found, ok and t or nil
end

--- The functions that compile and look at what was compiled, as fields of LuaJIT's own table: those that are described
--- as such are others than the module's of that name, as jit.view is not ty.view.
function M.jit_names()
  local list, jit_table = {}, rawget(_G, "jit")
  for name in pairs(help) do
    local f = type(jit_table) == "table" and rawget(jit_table, name)
    if f ~= nil and f == rawget(ty, name) then list[#list + 1] = name end
    if sub(name, 1, 4) == "jit." then list[#list + 1] = sub(name, 5) end
  end
  sort(list)
  return list
end

-------------------------------------------------------------------------------------------------------- the entries

--- What a comment says beside its description: errors, other functions.
local function sentences(entry)
  local text = entry.text
  local at = find(text, "%f[%w]Raises ")
  if at then
    entry.raises = gsub(sub(text, at), "\n", " ")
    entry.text = match(sub(text, 1, at - 1), "^(.-)%s*$")
  end
  entry.see = match(text, "see%s+(ty%.[%w_.]+)") or match(text, "see%s+(nn%.[%w_.]+)")
  if entry.see then entry.see = gsub(gsub(entry.see, "^ty%.", ""), "%.$", "") end
  return entry
end

local function entry_of(name, call, comment)
  return sentences {
    name = name, call = call, text = comment and comment.text or "", params = comment and comment.params or {},
    returns = comment and comment.returns or {}, overloads = comment and comment.overloads or {},
  }
end

--- An entry with the one line of help. What annotations.lua says goes on from that line; a comment beside a function of
--- Lua says it in its own words: the longer of the two stands.
local function with_summary(entry, line, goes_on)
  entry.summary = line
  if entry.text == "" then entry.text = line
  elseif goes_on then entry.text = line .. ".\n" .. entry.text
  elseif #entry.text < #line then entry.text = line end
  return entry
end

local one, both = "the sizes of x", "the sizes of a and b, broadcast"
local NOT_NUMBERS = "Raises where an argument is neither a tensor nor a number"
--- By type rule: what the result's dtype is.
local dtypes = {
  arith = "the dtype of the operands, promoted; bool gives i64", any = "the dtype of the operands, promoted",
  float = "a float dtype stays; integers and bool give the default float", int = "the dtype of the operands, promoted",
  bits = "the dtype of the operands, promoted", cmp = "bool",
}

--- What follows from a row of ops.h that works element by element.
local function of_row(entry, row)
  local limits = row.rule == "int" and ", or not of integers" or row.rule == "bits" and ", or of floats" or ""
  local takes = row.rule == "int" and "integers" or row.rule == "bits" and "integers or bool" or "any dtype"
  if row.arity == 1 then
    entry.params = { { name = "x", type = "tycho.Tensor|number", text = takes .. ", any shape" } }
    entry.raises = NOT_NUMBERS .. limits .. "."
  else
    entry.params = {}
    for i, name in ipairs { "a", "b" } do
      entry.params[i] = { name = name, type = "tycho.Tensor|number", text = takes .. ", any shape that broadcasts" }
    end
    entry.raises = NOT_NUMBERS .. limits .. ", or where the sizes do not broadcast."
  end
  entry.returns = { { type = "tycho.Tensor",
    text = (row.arity == 1 and one or both) .. "; " .. dtypes[row.rule] } }
  if row.bound > 0 then
    entry.accuracy = format("within %d ulp of the exact result", row.bound)
  elseif row.rule ~= "cmp" then
    entry.accuracy = "exact, or rounded once"
  end
  if row.gradients == 0 then entry.constant = true end
end

local rows -- of ops.h, by the user's name

local function row_of(name)
  if not rows then
    rows = {}
    for _, row in ipairs(internals.probe.ops()) do rows[row.lua or ""] = row end
  end
  return rows[name]
end

local composites

local function composite_of(name)
  if not composites then
    composites = {}
    for _, row in ipairs(internals.composites) do composites[row.name] = row end
  end
  return composites[name]
end

--- Functions of the module that are loaded when they are called first: where they are.
local later = {
  load = "files", save = "files", load_weights = "files", save_checkpoint = "files", load_checkpoint = "files",
  detect_anomaly = "anomaly", help = true, plot = true, progress = true, show = true, gradcheck = true, profile = true,
  pass = "graph",
}

--- The Lua function behind a public one of the module, false where it is one of C's.
local function definition(name)
  local row = composite_of(name)
  if row then return row.fn end
  local where = later[name]
  if where then
    local module = internals.load("tycho." .. (where == true and name or where))
    return type(module) == "table" and rawget(module, name) or module
  end
  local f = rawget(ty, name) or internals.methods[name]
  if name == "view" then f = internals.methods.view end
  return f
end

--- Which part of the reference a function of the module or a method stands in.
local function section_of(name, f)
  if annotations().sections[name] then return annotations().sections[name] end
  local row = row_of(name)
  local bits = row and (row.rule == "cmp" or row.rule == "bits" or row.rule == "int")
  if row then return bits and "Comparison and bits" or "Mathematics" end
  local _, _, path = comments_at(f)
  return path and match(path, "([%w_]+)%.lua$") or "Other"
end

--- The function that `name` is the form of which writes to its first argument; nil: it is a function of its own.
function M.in_place(name)
  return find(help[name] or "", "; written to the first argument", 1, true) and sub(name, 1, -2) or nil
end

--- A row's formula without what the text says: the paper that it is from, or all of it.
local function formula_beside(text, formula)
  local paper = match(formula, "arXiv:%S+$")
  if paper and find(text, paper, 1, true) then formula = gsub(formula, ",? ?%u%l[^=]* %d%d%d%d, arXiv:%S+$", "") end
  return formula ~= "" and not find(text, formula, 1, true) and formula or nil
end

--- The form that writes to its first argument what the function of that entry gives.
local function written_in_place(entry, of, about)
  entry.of = of
  entry.text = about
  entry.returns = { { type = "tycho.Tensor", text = "x itself; the sizes of the result must be those of x" } }
  entry.raises = (entry.raises and match(entry.raises, "^(.-)%.?$") .. "; also" or "Raises")
    .. " where the result does not fit into the first argument, or that is a leaf that requires a gradient."
  return entry
end

--- The entry of another name of a function: what the function's own says.
local function of_alias(name, alias)
  local entry, call, about = {}, match(help[name], "^[^(]*(%b())\n  (.*)$")
  for k, v in pairs(M.of(alias)) do entry[k] = v end
  entry.name, entry.call, entry.summary, entry.text = name, call, about, about
  entry.in_module, entry.is_method = rawget(ty, name) ~= nil, internals.methods[name] ~= nil
  return M.in_place(name) and written_in_place(entry, M.in_place(name), about) or entry
end

--- Everything about a function of the module or a method of tensors.
local function of_module(name)
  local plain_name = M.in_place(name)
  local composite = composite_of(plain_name or name)
  if composite and composite.alias then return of_alias(name, composite.alias) end
  local known = plain_name or name
  local line = help[name]
  local call, about = match(line, "^[^(]*(%b())\n  (.*)$")
  local declared = annotations().declared
  local comment = declared["ty." .. known] or declared["Tensor:" .. known]
  local goes_on = comment ~= nil
  local f = definition(known)
  if not comment then
    local comments, at = comments_at(f)
    comment = comments and (comments.above[at] or comments.named["ty." .. known])
  end
  local entry = with_summary(entry_of(name, call, comment), about, goes_on)
  local row = row_of(known)
  if row and row.class == "map" and not comment then of_row(entry, row) end
  if row and not entry.constant and row.class ~= "leaf" and row.gradients == 0 then entry.constant = true end
  if plain_name then written_in_place(entry, plain_name, about) end
  entry.formula = composite and composite.formula and formula_beside(entry.text, composite.formula)
  entry.shape = composite and composite.shape
  entry.section = section_of(known, f)
  entry.in_module = rawget(ty, name) ~= nil
  entry.is_method = internals.methods[name] ~= nil
  return entry
end

--- The entry of a name in a group; nil where there is none, false where no source can be read.
local function of_group(group, name)
  local found = M.members(group)
  if found[name] == nil then return nil end
  local comments, line = comments_at(found[name])
  local comment = comments and comments.above[line]
  local readable = comments ~= nil
  for _, f in pairs(found) do -- a class is described beside any of its functions
    local beside = comments_at(f)
    readable = readable or beside ~= nil
    comment = beside and beside.named[name] or comment
  end
  if not comment then
    comment = annotations().declared["ty." .. name]
    if comment and help[name] then
      local call, about = match(help[name], "^[^(]*(%b())\n  (.*)$")
      return with_summary(entry_of(name, call, comment), about, true)
    end
  end
  if not comment then
    if readable then return nil end
    return false
  end
  local entry = entry_of(name, comment.call, comment)
  entry.method = comment.method
  return entry
end

local known = {} -- entries that were made

--- The entry of a public name: nil where nothing is said of it, false where no source can be read.
---@param name string "softmax", "softmax_", "jit.compile", "nn.Linear", "nn.Linear.forward"
function M.of(name)
  if known[name] ~= nil then return known[name] end
  local entry
  local group = match(name, "^([^.]+)%.")
  if group == "jit" then
    local of = sub(name, 5)
    if help[name] then
      local comments, at = comments_at(rawget(_G, "jit")[of])
      local call, about = match(help[name], "^[^(]*(%b())\n  (.*)$")
      entry = with_summary(entry_of(name, call, comments and comments.above[at]), about)
    elseif help[of] then
      entry = {}
      for k, v in pairs(M.of(of)) do entry[k] = v end
      entry.name, entry.in_module, entry.is_method = name, false, false
    end
  elseif group and M.groups[group] then
    entry = of_group(group, name)
  elseif help[name] then
    entry = of_module(name)
  end
  known[name] = entry
  return entry
end

--- Words that a description of a default begins with; so do numbers and texts in quotes.
local defaults = { ["true"] = true, ["false"] = true, all = true, flattened = true, f32 = true }

--- What is said of an argument: where nothing is of a tensor, that it may have any shape; of a default, that it is one.
function M.about(param)
  local text = param.text
  if text == "" then return find(param.type, "^tycho%.Tensor$") and not param.optional and "any shape" or "" end
  local first = match(text, "^[%w.-]+") or ""
  local is_default = tonumber(first) or find(text, '^"') or defaults[first] or find(text, "^the last")
  return param.optional and is_default and "default: " .. text or text
end

--- The arguments of an entry: what it says, or under the names in its call what that says which it refers to.
function M.params(entry)
  local other = #entry.params == 0 and entry.see and M.of(entry.see)
  if not other then return entry.params end
  local by_name, list = {}, {}
  for _, p in ipairs(other.params) do by_name[p.name] = p end
  local call = gsub(gsub(entry.call, "%b{}", "opts"), "=[^,)]*", "")
  for name in gmatch(call, "[%a_][%w_]*") do list[#list + 1] = by_name[name] end
  return list
end

--- The errors of an entry: what it says, or what that says which it refers to; nil where both are silent.
function M.raises(entry)
  if entry.raises then return entry.raises end
  local other = entry.see and M.of(entry.see)
  return other and other ~= entry and M.raises(other) or nil
end

--- Whether an entry says what happens where a call fails: an error, or nil and a message.
function M.tells_errors(entry)
  if M.raises(entry) or find(entry.text, "nil and a message", 1, true) then return true end
  for _, r in ipairs(entry.returns) do
    if r.name == "message" or find(r.text, "nil and a message", 1, true) then return true end
  end
  return false
end

return M
