--- make_meta.lua -- lua/tycho/meta.lua: what LuaLS and its kin know of the library. `make meta` writes it.
-- In: the library and tycho.texts, which ty.help and the reference stand on, too. Out: the file's text. Functions are
-- those that ty.help knows; classes are those that their types name. A function of which nothing is said, an argument
-- that is not described, and a class that nobody declares, are errors: nothing is left out in silence.

local ty = require "tycho"

local internals = ty.internals
local texts = internals.load "tycho.texts"
local here = debug.getinfo(1, "S").source:match "^@(.*)$":gsub("[^/]*$", "")
local sources = here .. "../lua/tycho/"

local function sorted(t)
  local list = {}
  for k in pairs(t) do list[#list + 1] = k end
  table.sort(list)
  return list
end

--- The entry of a public name.
local function entry_of(name) return texts.of(name) or error("nothing is said of " .. name) end

--- All that is said of a function but its arguments and results, in lines.
local function words_of(entry)
  local lines = { entry.text }
  if entry.shape then lines[#lines + 1] = "Shape of the result: " .. entry.shape end
  if entry.formula then lines[#lines + 1] = "Formula: " .. entry.formula end
  if entry.accuracy then lines[#lines + 1] = "Accuracy: " .. entry.accuracy .. "." end
  lines[#lines + 1] = texts.raises(entry)
  return table.concat(lines, "\n")
end

--- Whether each argument of a call is described; one `...` may stand for all from somewhere on.
local function is_described(call, params)
  local last = params[#params]
  return last and last.name == "..." or #params >= select(2, call:gsub("%b{}", "opts"):gsub("[^(),]+", ""))
end

----------------------------------------------------------------------------------------------------------- the page

--- A page of definitions. classes: those of the sources by name.
local function new_page(classes)
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
    for line in (text .. "\n"):gmatch "([^\n]*)\n" do page.add("%s", "---" .. line) end
  end

  --- A class with its fields.
  function page.class(name, parent, words)
    local known = classes[name]
    page.add ""
    page.words(words or known and known.text or "")
    page.add("---@class %s%s", name, parent and ": " .. parent or "")
    for _, field in ipairs(known and known.fields or {}) do page.add("%s", "---@field " .. field) end
    page.declared[name] = true
  end

  --- Arguments, results and other forms, then the function. as: how it is written.
  local function signature(as, params, returns, overloads)
    local names = {}
    for i, p in ipairs(params) do
      page.add("---@param %s%s %s%s", p.name, p.optional and "?" or "", p.type, p.text ~= "" and " # " .. p.text or "")
      names[i] = p.name
    end
    for _, r in ipairs(returns) do
      page.add("---@return %s%s%s", r.type, r.name and " " .. r.name or "", r.text ~= "" and " # " .. r.text or "")
    end
    for _, form in ipairs(overloads) do page.add("---@overload %s", form) end
    page.add("function %s(%s) end", as, table.concat(names, ", "))
  end

  --- A public function. o.drop: a method of its first argument; o.result: the class that it makes.
  function page.fn(as, name, o)
    local entry, params = entry_of(name), {}
    for i, p in ipairs(texts.params(entry)) do params[i] = p end
    if not is_described(entry.call, params) then error(name .. entry.call .. ": an argument is not described") end
    if o.drop then table.remove(params, 1) end
    local returns = entry.returns
    if o.result then
      local made = returns[1] or { text = "" }
      returns = { { type = o.result, name = made.name, text = made.text } }
    end
    page.add ""
    page.words(words_of(entry))
    signature(as, params, returns, o.drop and {} or entry.overloads)
  end

  --- A method of a class that has no public name.
  function page.method(as, comment)
    page.add ""
    page.words(comment.text)
    signature(as, comment.params, comment.returns, comment.overloads)
  end

  return page
end

--------------------------------------------------------------------------------------------------------- the sources

--- The classes that the sources declare, by name, {parent, text, fields, methods = comments by name}; a class that
--- several comments declare has the fields of all. And the types that have a name, as lines.
local function declarations()
  local pipe = io.popen(("cd '%s' && find . -name '*.lua' ! -name meta.lua | sort"):format(sources))
  local classes = {}
  for path in pipe:lines() do
    local comments = texts.comments_of(sources .. path:sub(3))
    for _, c in ipairs(comments.classes) do
      local class = classes[c.name] or { fields = {}, methods = {} }
      classes[c.name] = class
      class.parent, class.text = class.parent or c.parent, class.text or c.text ~= "" and c.text or nil
      for _, field in ipairs(c.fields) do class.fields[#class.fields + 1] = field end
      for declared, comment in pairs(comments.declared) do
        local method = c.own and declared:match("^" .. c.own .. ":(%a[%w_]*)$")
        if method then class.methods[method] = comment end
      end
    end
  end
  pipe:close()
  local aliases = {}
  for line in io.lines(sources .. "annotations.lua") do
    if line:find "^%-%-%-@alias " then aliases[#aliases + 1] = line end
  end
  return classes, aliases
end

--------------------------------------------------------------------------------------------------- tensors, functions

local HEAD = [[
---@meta tycho
-- luacheck: ignore
-- Made by `make meta` from the texts of ty.help: not to be edited. Language servers read it, nothing runs it.
]]

local OPERATORS = {
  "add(tycho.Tensor|number): tycho.Tensor", "sub(tycho.Tensor|number): tycho.Tensor", "mul(tycho.Tensor|number): tycho.Tensor",
  "div(tycho.Tensor|number): tycho.Tensor", "mod(tycho.Tensor|number): tycho.Tensor", "pow(tycho.Tensor|number): tycho.Tensor",
  "unm: tycho.Tensor", "len: integer",
}

local function add_tensor(page)
  page.class "tycho.Tensor"
  page.add "---@field [integer] tycho.Tensor"
  for _, operator in ipairs(OPERATORS) do page.add("---@operator " .. operator) end
  page.add "local Tensor = {}"
  for _, name in ipairs(sorted(internals.help)) do
    if internals.methods[name] then page.fn("Tensor:" .. name, name, { drop = true }) end
  end
end

local function add_module(page)
  page.class("tycho", nil, "Tensors for LuaJIT.")
  page.add "---@field version string"
  page.add "local ty, objects = {}, {}"
  for _, name in ipairs(sorted(internals.help)) do
    if type(rawget(ty, name)) == "function" then page.fn("ty." .. name, name, {}) end
  end
end

local function add_jit(page)
  page.class("jitlib", nil, "LuaJIT's table, to which the library adds.")
  page.add "---@field log boolean|fun(text: string)"
  page.add "local jitlib = {}"
  for _, name in ipairs(texts.jit_names()) do page.fn("jitlib." .. name, "jit." .. name, {}) end
end

----------------------------------------------------------------------------------------------------------- the groups

--- Classes by the names under which they are public, where the sources call them otherwise.
local NAMES = {
  ["nn.Module"] = "tycho.Module", ["optim.Optimizer"] = "tycho.Optimizer", ["files.TensorFile"] = "tycho.TensorFile",
  ["optim.Schedule"] = "tycho.Schedule", ["optim.Plateau"] = "tycho.Plateau", ["optim.GradScaler"] = "tycho.GradScaler",
  ["graph.Graph"] = "tycho.GraphObject", plot = "tycho.Plot", progress = "tycho.Progress", run = "tycho.Run",
}

local function is_class(v) return type(v) == "table" and (getmetatable(v) or {}).__call ~= nil end

--- The class that a public name stands for, and its parent.
local function class_of(name)
  local class = NAMES[name] or "tycho." .. name
  local parent = name:find "^nn%.%u" and "tycho.Module" or name:find "^optim%.%u" and not NAMES[name] and "tycho.Optimizer" or nil
  return class, class ~= parent and parent or nil
end

--- How the objects of a class are written, which are not the function that makes them.
local function object(name) return "objects." .. name:gsub("%.", "_") end

local function add_object(page, name, class, parent)
  page.class(class, parent)
  if class == "tycho.Module" then page.add "---@overload fun(...): tycho.Tensor" end
  page.add("%s = {}", object(name))
end

local function add_group(page, group)
  local found, held = texts.members(group)
  local whole, done = NAMES[group], {}
  page.class(whole or "tycho." .. group)
  page.add("local %s = {}", group)
  for _, name in ipairs(sorted(found)) do
    local of, last = name:match "^(.*)%.([^.]*)$"
    local entry = texts.of(name)
    if entry == false then error("the sources of " .. name .. " cannot be read") end
    local makes = is_class(found[name])
    local in_object = of ~= group and (is_class(found[of]) or type(held[of:match "^[^.]*%.([^.]*)"]) ~= "table")
    if entry and of ~= group and not done[of] and not is_class(found[of]) then
      done[of] = true
      page.class(class_of(of))
      page.add("%s = {}", in_object and object(of) or of)
    end
    if entry and makes then
      local class, parent = class_of(name)
      page.fn(name, name, { result = class })
      add_object(page, name, class, parent)
      done[name] = true
    elseif entry then
      local sign = (entry.method or whole) and ":" or "."
      page.fn((in_object and object(of) or of) .. sign .. last, name, {})
    end
  end
  if type(ty[group]) == "table" then page.add("\nty.%s = %s", group, group) end
end

--- Classes of arguments and results which have no public name.
local function add_mentioned(page, classes)
  local again = true
  while again do
    again = false
    for _, name in ipairs(sorted(page.mentioned)) do
      local class = classes[name]
      if not page.declared[name] then
        if not class then error("no class " .. name) end
        again = true
        page.class(name, class.parent)
        if next(class.methods) then
          local as = name:match "[^.]*$"
          page.add("local %s = {}", as)
          for _, method in ipairs(sorted(class.methods)) do page.method(as .. ":" .. method, class.methods[method]) end
        end
      end
    end
  end
end

--- The text of the file.
return function()
  local classes, aliases = declarations()
  local page = new_page(classes)
  page.add(HEAD)
  for _, alias in ipairs(aliases) do
    page.add("%s", alias)
    page.declared[alias:match "^%-%-%-@alias ([%w_.]+)"] = true
  end
  add_tensor(page)
  add_module(page)
  add_jit(page)
  for _, group in ipairs(sorted(texts.groups)) do add_group(page, group) end
  add_mentioned(page, classes)
  page.add ""
  page.add "return ty"
  return table.concat(page.lines, "\n") .. "\n"
end
