--- make_meta.lua -- lua/tycho/meta.lua: what LuaLS and its kin know of the library. `make meta` writes it.
-- In: the library, its sources, types.lua. Out: the file's text. Calls and texts are those of ty.help; types come from
-- annotations where functions have them, else from types.lua by the names of arguments. An argument that has no type, and a
-- class that nobody declares, are errors: nothing is left out in silence.

local ty = require "tycho"
local here = debug.getinfo(1, "S").source:match "^@(.*)[^/]*$":gsub("[^/]*$", "")
local types = dofile(here .. "types.lua")
local read_annotations = dofile(here .. "annotations.lua")

local internals = ty.internals
internals.load "tycho.help"
local function sorted(t)
  local list = {}
  for k in pairs(t) do list[#list + 1] = k end
  table.sort(list)
  return list
end

------------------------------------------------------------------------------------------------------- calls as text

--- The pieces of a list that stand between commas outside of brackets and quotes.
local function pieces(text)
  local list, depth, from, quoted = {}, 0, 1, false
  for i = 1, #text do
    local c = text:sub(i, i)
    if c == '"' then quoted = not quoted
    elseif quoted then depth = depth + 0
    elseif c:find "[%({%[]" then depth = depth + 1
    elseif c:find "[%)}%]]" then depth = depth - 1
    elseif c == "," and depth == 0 then
      list[#list + 1], from = text:sub(from, i - 1), i + 1
    end
  end
  list[#list + 1] = text:sub(from)
  for i, piece in ipairs(list) do list[i] = piece:match "^%s*(.-)%s*$" end
  if list[#list] == "" then list[#list] = nil end
  return list
end

local function of_literal(text)
  if text == "true" or text == "false" then return "boolean" end
  if tonumber(text) then return "number" end
  if text:find '^"' then return "string" end
end

--- The type of a table of options: {dtype, stride = 1}.
local function options_type(who, text)
  local parts = {}
  if text:find(", ...", 1, true) then return "table<string, any>" end -- {name = part, ...}
  for _, piece in ipairs(pieces(text:sub(2, -2))) do
    local name, default = piece:match "^([%w_]+)%s*=?%s*(.*)$"
    local of = types.options[name] or of_literal(default) or error(("%s: no type for the option %s"):format(who, name))
    parts[#parts + 1] = ("%s?: %s"):format(name, of)
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function of_argument(who, name) return types.arguments[who .. "." .. name] or types.arguments[name] end

--- One argument of a call: {name, type, optional}.
local function argument(who, piece)
  if types.renamed[piece] then piece = types.renamed[piece] end
  if piece:find "^{" then
    local of = options_type(who, piece)
    return { name = "opts", type = of, optional = true }
  end
  local several = piece:match "^([%w_]+)%.%.%.$"
  if several then return { name = "...", type = types.variadic[several] or error(who .. ": no type for " .. piece) } end
  local name, default = piece:match "^([%w_]+)%s*=%s*(.*)$"
  name = name or piece
  local of = of_argument(who, name) or default and of_literal(default)
  if not of then error(("%s: no type for the argument %s"):format(who, name)) end
  local may = of:sub(-1) == "?"
  return { name = name, type = may and of:sub(1, -2) or of, optional = may or default ~= nil }
end

--- The arguments of a call as help shows it, with the types of annotations where these name them.
local function arguments(who, text, above)
  local list, annotated = {}, {}
  for _, p in ipairs(above and above.params or {}) do annotated[p.name] = p end
  for i, piece in ipairs(pieces(text)) do
    local written = above and above.list[i]
    local p = annotated[written] or annotated[piece:match "^[%w_]+"]
    if piece == "..." then p = annotated["..."] end
    if p and p.type == "table" and piece:find "^{" then p = nil end -- the call says more
    local last = list[#list]
    local more = p and p.name == "..." and last and last.name == "..." -- part, part, ...
    if p then list[#list + 1] = not more and p or nil
    elseif piece == "..." then
      local of = types.variadic[who] or last and types.variadic[last.name] or "any"
      list[#list + 1] = { name = "...", type = of }
    elseif last and last.name == "..." then -- what is behind of them is one of them
      if piece:find "^{" then last.type = last.type .. "|" .. options_type(who, piece) end
    else list[#list + 1] = argument(who, piece) end
  end
  return list
end

----------------------------------------------------------------------------------------------------------- the page

--- A page of definitions. classes: those of the sources by name.
local function new_page(above)
  local page = { lines = {}, declared = {}, mentioned = {} }

  function page.add(fmt, ...)
    local line = select("#", ...) > 0 and fmt:format(...) or fmt
    for name in line:gmatch "tycho%.[%w_.]*[%w_]" do
      if line:find "^%-%-%-@" and not line:find("@class " .. name .. "[: ]*$") then page.mentioned[name] = true end
    end
    page.lines[#page.lines + 1] = line
  end

  function page.words(text)
    if text == "" then return end
    for line in (text .. "\n"):gmatch "([^\n]*)\n" do page.add("---" .. line:gsub("^  ", "")) end
  end

  function page.class(name, parent, words)
    if words then page.words(words) end
    page.add("---@class %s%s", name, parent and ": " .. parent or "")
    page.declared[name] = true
  end

  --- The arguments and results of a function. given: those of its help; drop: the first one is self.
  local function signature(who, given, from, drop)
    local list = arguments(who, given, from)
    local names = {}
    for i, a in ipairs(list) do
      if not (drop and i == 1) then
        local words = a.text and a.text ~= "" and " # " .. a.text or ""
        page.add("---@param %s%s %s%s", a.name, a.optional and "?" or "", a.type, words)
        names[#names + 1] = a.name
        if types.listed[who] and a.name:find "^dims$" or types.listed[who] and a.name == "sizes" then
          page.add "---@param ... integer"
          names[#names + 1] = "..."
        end
      end
    end
    return names
  end

  local function returned(who, from, own)
    local results = types.results[who]
    if from and #from.returns > 0 then
      for _, r in ipairs(from.returns) do
        local name = r.name and " " .. r.name or ""
        page.add("---@return %s%s%s", r.type, name, r.text and r.text ~= "" and " # " .. r.text or "")
      end
    elseif results then
      for _, of in ipairs(results) do page.add("---@return %s", of) end
    elseif own or not who:find(".", 1, true) or who:find "^linalg%." or who:find "^nn%.init%." then
      page.add("---@return %s", own or "tycho.Tensor")
    else
      error(who .. ": what does it give?")
    end
  end

  --- A function with its help, "name(args)\n  text". as: how it is written; who: its name in types.lua; drop: a method of
  --- the first argument.
  function page.fn(as, who, text, fn, o)
    o = o or {}
    local from = fn and above(fn)
    local given = text:match "^[%w_.:]+(%b())" or text:match "^[%w_.:]+(%b{})"
    given = given:sub(1, 1) == "(" and given:sub(2, -2) or given
    page.add ""
    page.words(text:match "\n%s*(.*)$" .. (o.more or ""))
    local names = signature(who, given, from, o.drop)
    returned(who, from, o.result)
    for _, form in ipairs(types.overloads[who] or {}) do page.add("---@overload %s", form) end
    page.add("function %s(%s) end", as, table.concat(names, ", "))
  end

  return page
end

--------------------------------------------------------------------------------------------------- tensors, functions

local HEAD = [[
---@meta tycho
-- luacheck: ignore
-- Made by `make meta` from the texts and annotations of ty.help: not to be edited. Language servers read it, nothing runs it.

---@alias tycho.Dtype "bool"|"u8"|"i8"|"i16"|"i32"|"i64"|"f16"|"bf16"|"f32"|"f64"
]]

local OPERATORS = {
  "add(tycho.Tensor|number): tycho.Tensor", "sub(tycho.Tensor|number): tycho.Tensor", "mul(tycho.Tensor|number): tycho.Tensor",
  "div(tycho.Tensor|number): tycho.Tensor", "mod(tycho.Tensor|number): tycho.Tensor", "pow(tycho.Tensor|number): tycho.Tensor",
  "unm: tycho.Tensor", "len: integer",
}

local function rows_by_name()
  local rows = {}
  for _, row in ipairs(internals.composites) do
    rows[row.name] = row
    if row.inplace then rows[row.name .. "_"] = row end
  end
  return rows
end

--- What a row says beyond its help.
local function more_of(row)
  if not row then return "" end
  return "\nShape of the result: " .. row.shape .. (row.formula and "\nFormula: " .. row.formula or "")
end

local LOADED = { help = "help", plot = "plot", progress = "progress", show = "show", detect_anomaly = "anomaly",
  gradcheck = "gradcheck", profile = "profile" }

--- The function that annotations stand above: a row's own, or the one that a stub of the module loads.
local function behind(name, row)
  if row then return row.fn end
  if LOADED[name] then return internals.load("tycho." .. LOADED[name]) end
  return type(rawget(ty.files, name)) == "function" and ty.files[name] or rawget(ty, name) or internals.methods[name]
end

local function add_tensor(page, class, rows)
  page.add ""
  page.class("tycho.Tensor", nil, class.text)
  for _, field in ipairs(class.fields) do page.add("---@field " .. field) end
  page.add "---@field [integer] tycho.Tensor"
  for _, operator in ipairs(OPERATORS) do page.add("---@operator " .. operator) end
  page.add "local Tensor = {}"
  for _, name in ipairs(sorted(internals.help)) do
    if internals.methods[name] then
      page.fn("Tensor:" .. name, name, internals.help[name], behind(name, rows[name]), { drop = true, more = more_of(rows[name]) })
    end
  end
end

local function add_module(page, rows)
  page.add ""
  page.class("tycho", nil, "Tensors for LuaJIT.")
  page.add "---@field version string"
  page.add "local ty, objects = {}, {}"
  for _, name in ipairs(sorted(internals.help)) do
    if type(rawget(ty, name)) == "function" then
      page.fn("ty." .. name, name, internals.help[name], behind(name, rows[name]), { more = more_of(rows[name]) })
    end
  end
end

local function add_jit(page)
  page.add ""
  page.class("jitlib", nil, "LuaJIT's table, to which the library adds.")
  page.add "---@field log boolean|fun(text: string)"
  page.add "local jitlib = {}"
  local of = internals.help_jit()
  for _, name in ipairs(sorted(of)) do
    local who = internals.help["jit." .. name] and "jit." .. name or name
    page.fn("jitlib." .. name, who, of[name], jit[name])
  end
end

----------------------------------------------------------------------------------------------------------- the groups

--- Classes by the names under which they are public, where the sources call them otherwise.
local NAMES = {
  ["nn.Module"] = "tycho.Module", ["optim.Optimizer"] = "tycho.Optimizer", ["files.TensorFile"] = "tycho.TensorFile",
  ["graph.Graph"] = "tycho.GraphObject", plot = "tycho.Plot", progress = "tycho.Progress", run = "tycho.Run",
}

local function is_class(v) return type(v) == "table" and (getmetatable(v) or {}).__call ~= nil end

--- The class that a public name stands for, and its parent.
local function class_of(name)
  local parent = name:find "^nn%.%u" and "tycho.Module" or name:find "^optim%.%u" and "tycho.Optimizer" or nil
  local class = NAMES[name] or "tycho." .. name
  return class, class ~= parent and parent or nil
end

--- Declares the tables that a name stands in, but its group.
local function add_parents(page, group, name, found, done, text_of)
  local path = group
  for part in name:sub(#group + 2, -1):gmatch "([%w_]+)%." do
    path = path .. "." .. part
    if not done[path] and not is_class(found[path]) then
      done[path] = true
      local class, parent = class_of(path)
      page.add ""
      page.class(class, parent, text_of[class] and text_of[class].text)
      page.fields(class)
      page.add("%s = {}", path)
    end
  end
end

--- How the objects of a class are written, which are not the function that makes them.
local function object(name) return "objects." .. name:gsub("%.", "_") end

local function add_class(page, name, class, parent)
  page.add ""
  page.class(class, parent)
  page.fields(class)
  if class == "tycho.Module" then page.add "---@overload fun(...): tycho.Tensor" end
  page.add("%s = {}", object(name))
end

--- Whether a name is a method of what a function of the group makes: its class is added where results mention it.
local function is_of_result(group, name)
  local made, class = type(ty[group]) == "table" and rawget(ty[group], "_classes"), name:match "^[^.]+%.([^.]+)%."
  return made and made[class] ~= nil
end

local function add_group(page, group, classes)
  local help, found = internals.help_entries(group)
  local whole, done = NAMES[group], {}
  page.add ""
  page.class(whole or "tycho." .. group)
  page.fields(whole or "tycho." .. group)
  page.add("local %s = {}", group)
  for _, name in ipairs(sorted(help)) do
    local fn, text = found[name], not is_of_result(group, name) and help[name]
    if text then add_parents(page, group, name, found, done, classes) end
    if text and is_class(fn) then
      local class, parent = class_of(name)
      page.fn(name, name, text, rawget(fn, "init"), { result = class })
      add_class(page, name, class, parent)
    elseif text then
      local of, last = name:match "^(.*)%.([^.]*)$"
      local method = text:match "^[%w_.]+:" or whole
      page.fn((is_class(found[of]) and object(of) or of) .. (method and ":" or ".") .. last, name, text, fn,
        { result = whole })
    end
  end
  if type(ty[group]) == "table" then page.add("\nty.%s = %s", group, group) end
end

--- Classes of results, which have fields and methods but no public name.
local function add_mentioned(page, classes)
  local again = true
  while again do
    again = false
    for _, name in ipairs(sorted(page.mentioned)) do
      local class = classes[name]
      if not page.declared[name] and name ~= "tycho.Dtype" then
        if not class then error("no class " .. name) end
        again = true
        page.add ""
        page.class(name, class.parent, class.text)
        page.fields(name)
        page.methods(class)
      end
    end
  end
end

--- The text of the file.
return function()
  local pipe = io.popen(("cd '%s../lua/tycho' && find . -name '*.lua' ! -name meta.lua | sort"):format(here))
  local paths = {}
  for line in pipe:lines() do paths[#paths + 1] = line:sub(3) end
  pipe:close()
  local annotations = read_annotations(here .. "../lua/tycho/", paths)
  local classes, rows = annotations.classes, rows_by_name()
  local page = new_page(annotations.above)

  function page.fields(name)
    for _, field in ipairs(classes[name] and classes[name].fields or {}) do page.add("---@field " .. field) end
  end

  function page.methods(class)
    local as = class.name:match "[^.]*$"
    if #class.methods == 0 then return end
    page.add("local %s = {}", as)
    table.sort(class.methods)
    for _, name in ipairs(class.methods) do
      local c = class.methods[name]
      page.add ""
      page.words(table.concat(c.text, "\n"))
      for _, a in ipairs(arguments(class.name .. "." .. name, table.concat(c.list, ", "), c)) do
        page.add("---@param %s%s %s", a.name, a.optional and "?" or "", a.type)
      end
      for _, r in ipairs(c.returns) do page.add("---@return %s", r.type) end
      page.add("function %s:%s(%s) end", as, name, table.concat(c.list, ", "))
    end
  end

  page.add(HEAD:sub(1, -2))
  add_tensor(page, classes["tycho.Tensor"], rows)
  add_module(page, rows)
  add_jit(page)
  for _, group in ipairs(sorted(internals.help_groups)) do add_group(page, group, classes) end
  add_mentioned(page, classes)
  page.add ""
  page.add "return ty"
  return table.concat(page.lines, "\n") .. "\n"
end
