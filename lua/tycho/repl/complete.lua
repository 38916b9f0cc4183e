--- repl/complete.lua -- what TAB completes.
-- In: the text before the cursor. Out: words that may stand there, what of them is typed already, and what follows a
-- word that is the only one. Nothing of the user's is called: fields are read raw, or through tables of classes.

local ty = require "tycho"
local commands = require "tycho.repl.commands"
local problems = require "tycho.repl.problems"
local source = require "tycho.repl.source"

local M = {}

local function sorted_matches(found, typed)
  local list = {}
  for name in pairs(found) do
    if name:sub(1, #typed) == typed then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

----------------------------------------------------------------------------------------------- files, modules

local function lines_of(shell)
  local pipe, list = io.popen(shell), {}
  if not pipe then return list end
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

--- The names in a directory, those of directories with a slash behind them.
local function names_in(directory)
  directory = directory:gsub("^~", os.getenv "HOME" or "~")
  return lines_of(("ls -1Ap -- '%s' 2>/dev/null"):format((directory == "" and "." or directory):gsub("'", "'\\''")))
end

local function files(typed)
  local directory, part = typed:match "^(.*/)([^/]*)$"
  directory, part = directory or "", part or typed
  local found = {}
  for _, name in ipairs(names_in(directory)) do
    if name:sub(1, 1) ~= "." or part:sub(1, 1) == "." then found[directory .. name] = true end
  end
  return sorted_matches(found, typed)
end

--- Module names: what is loaded, and what package.path and package.cpath lead to.
local function modules(typed)
  local found = {}
  for _, t in ipairs { package.loaded, package.preload } do
    for name in pairs(t) do
      if type(name) == "string" and not name:find "^_" then found[name] = true end
    end
  end
  local parent = typed:match "^(.*%.)[^.]*$" or ""
  for template in (package.path .. ";" .. package.cpath):gmatch "[^;]+" do
    local before, after = template:match "^(.-)%?(.*)$"
    if before and (after == ".lua" or after == ".so") then
      for _, name in ipairs(names_in(before .. parent:gsub("%.", "/"))) do
        local stem = name:match "/$" and name:sub(1, -2)
          or name:sub(-#after) == after and name:sub(1, -#after - 1)
        if stem and stem:find "^[%w_-]+$" then found[parent .. stem] = true end
      end
    end
  end
  return sorted_matches(found, typed)
end

---------------------------------------------------------------------------------------------------------------- fields

--- The class of plots, once there can be one.
function M.is_plot(v)
  local loaded = package.loaded["tycho.plot"]
  return loaded ~= nil and debug.getmetatable(v) == debug.getmetatable(ty.plot {})
end

local PROPERTIES = { "shape", "dtype", "device", "ndim", "requires_grad", "grad", "is_leaf" }

--- The fields of a value; of a method's owner only functions.
local function fields(v, methods)
  local found = {}
  if ty.is_tensor(v) then
    for name in pairs(ty.internals.methods) do found[name] = true end
    if not methods then
      found = {}
      for _, name in ipairs(PROPERTIES) do found[name] = true end
      for name in pairs(ty.internals.methods) do found[name] = true end
    end
    return found
  end
  if type(v) == "string" then v = string end
  if v == ty then -- what is loaded when it is first used
    for name in pairs(ty.internals.parts) do found[name] = true end
  end
  local meta = debug.getmetatable(v)
  if type(v) ~= "table" then v = type(meta) == "table" and rawget(meta, "__index") or nil end
  for _ = 1, 12 do
    if type(v) ~= "table" then break end
    for k, x in next, v do
      local callable = type(x) == "function"
      if type(k) == "string" and k:find "^[%a_][%w_]*$" and (callable or not methods) then found[k] = true end
    end
    meta = debug.getmetatable(v)
    v = type(meta) == "table" and (rawget(meta, "__index") or rawget(meta, "parent"))
    if type(v) == "function" then -- modules: their class
      v = rawget(meta, "parent") and meta or type(rawget(meta, "class_name")) == "string" and meta or nil
      if v then
        for k in next, v do
          if type(k) == "string" then found[k] = true end
        end
        v = rawget(v, "parent")
      end
    end
  end
  return found
end

-- Internal fields are offered when one asks for them.
local function public(found, typed)
  if typed:find "^_" then return found end
  for name in pairs(found) do
    if name:find "^_" then found[name] = nil end
  end
  return found
end

--------------------------------------------------------------------------------------------------------------- options

--- The options of a call, from the braces in its help: `nn.Linear(inputs, outputs, {bias = true})`.
local function options_of(session, path)
  local ok, text = pcall(commands.help, path)
  local value = problems.resolve(session, path)
  if not (ok and text) and value ~= nil then ok, text = pcall(commands.help, value) end
  if not (ok and text) then return nil end
  local inside = text:match "^[^\n]-{(.-)}"
  local list = {}
  for part in ((inside or "") .. ","):gmatch "%s*([%a_][%w_]*)[^,]*," do list[part] = true end
  if next(list) == nil then
    for part in text:gmatch "\n[^\n]-Options: (.*)" do
      for name in part:gmatch "([%a_][%w_]*)[ ,:;(]" do list[name] = true end
    end
  end
  return next(list) and list or nil
end

--- The call whose braces the text ends in: "nn.Linear", or nil.
local function call_of(tokens)
  local depth = 0
  for i = #tokens, 1, -1 do
    local t = tokens[i].text
    if t == "}" or t == ")" or t == "]" then depth = depth + 1 end
    if t == "{" or t == "(" or t == "[" then
      if depth == 0 then
        if t ~= "{" then return nil end
        -- back to the call's own parenthesis, unless the brace follows the name
        local at = i - 1
        if tokens[at] and (tokens[at].text == "," or tokens[at].text == "(") then
          local inner = 0
          while tokens[at] do
            local word = tokens[at].text
            if word == ")" or word == "}" or word == "]" then inner = inner + 1 end
            if word == "(" or word == "{" or word == "[" then
              if inner == 0 then break end
              inner = inner - 1
            end
            at = at - 1
          end
          at = at - 1
        end
        local words = {}
        while tokens[at] and (tokens[at].kind == "name" or tokens[at].text == "." or tokens[at].text == ":") do
          table.insert(words, 1, tokens[at].text)
          at = at - 1
        end
        return #words > 0 and table.concat(words) or nil
      end
      depth = depth - 1
    end
  end
end

------------------------------------------------------------------------------------------------------------------- all

--- Words for the place at the end of a text.
---@param session table
---@param text string
---@return string[] words, string typed, string closing
function M.words(session, text)
  local command = text:match "^%s*%%(%w*)$"
  if command then
    local found = {}
    for _, name in ipairs(commands.names()) do found[name] = true end
    return sorted_matches(found, command), command, " "
  end
  local file = text:match "^%s*%%%w+%s+(%S*)$" or text:match "^%s*[$!].-(%S*)$"
  if file then return files(file), file, "" end
  text = text:gsub("^%s*%?%??", "")
  local tokens = source.tokens(text)
  local last = tokens[#tokens]
  if last and last.kind == "comment" and not text:sub(last.last + 1):find "\n" then return {}, "", "" end
  if last and last.kind == "string" and not last.closed then
    local typed = last.text:gsub("^%[=*%[", ""):gsub("^[\"']", "")
    local quote = last.text:match "^[\"']" or ""
    local before = tokens[#tokens - 1]
    if before and before.text == "(" then before = tokens[#tokens - 2] end
    if before and before.text == "require" then return modules(typed), typed, quote end
    local list = files(typed)
    return list, typed, #list == 1 and list[1]:sub(-1) ~= "/" and quote or ""
  end
  local path, mark, typed = text:match "([%a_][%w_.:]*)([.:])([%w_]*)$"
  if path then
    local value = problems.resolve(session, path)
    if value == nil and not session:get(path) and rawget(_G, path) == nil then return {}, typed, "" end
    return sorted_matches(public(fields(value, mark == ":"), typed), typed), typed, ""
  end
  if text:find "[%])}\"'][.:][%w_]*$" then -- a call's result: most likely a tensor
    typed = text:match "[%w_]*$"
    return text:find ":[%w_]*$" and sorted_matches(public(fields(ty.ones(1), true), typed), typed) or {}, typed, ""
  end
  typed = text:match "[%a_][%w_]*$" or ""
  local inside = typed ~= "" and source.tokens(text:sub(1, -#typed - 1)) or tokens
  local before = inside[#inside]
  if before and (before.text == "{" or before.text == ",") then
    local call = call_of(inside)
    local options = call and options_of(session, call)
    local words = options and sorted_matches(options, typed) or {}
    if #words > 0 then return words, typed, " = " end
  end
  if typed == "" then return {}, "", "" end
  local found = public(problems.names(session), typed)
  for word in pairs(source.KEYWORDS) do found[word] = true end
  return sorted_matches(found, typed), typed, ""
end

return M
